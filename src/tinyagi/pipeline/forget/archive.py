"""The lake's side of an erasing: what is a person's in bronze, bronze without it, and nothing left of the old files."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.pipeline.delta.commit import Change, Staged, commit
from tinyagi.pipeline.delta.log_files import LOG, sync_version
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_snapshot
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.facts import facts
from tinyagi.pipeline.forget.erasures import row_of
from tinyagi.pipeline.forget.files import paths_in
from tinyagi.pipeline.forget.redaction import redact
from tinyagi.pipeline.frames import spark_schema
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import Pin, write_manifest
from tinyagi.pipeline.tables.bronze import EVENTS
from tinyagi.pipeline.tables.ops import ERASURES
from tinyagi.pipeline.tidy import vacuum
from tinyagi.pipeline.workshop import Inspected, Plan, Workshop
from tinyagi.store.erasing import Erasure, Identity, Person, Redaction, Scope, Sighting
from tinyagi.system.files import sync

_WHO: Final = """
  id bigint, channel string, sender string, sender_id string, message_id string, conversation_id string, role string,
  from_agent string, files string
"""
# Facts that may be about somebody though nothing beside their payload says so.
_LONE: Final = ("chat_posted", "response_ready", "row_imported")


class LakeEraser:
    """One lake, opened for writing. `rebuild` makes every other table anew from bronze: `Pipeline.backfill`."""

    def __init__(self, shop: Workshop, rebuild: Callable[[], object]) -> None:
        self._shop = shop
        self._rebuild = rebuild
        self._rows: DataFrame | None = None

    def sightings(self, person: Person) -> frozenset[Sighting]:
        """Every way in which facts name somebody who may be meant."""
        rows = self._named()
        is_meant = F.col("sender_id") == F.lit(person.sender_id)
        if person.sender_id is None:
            is_meant = (F.col("sender") == F.lit(person.sender)) & (F.coalesce("role", F.lit("user")) == "user")
        found = rows.where(is_meant & F.col("channel").isNotNull()).select("channel", "sender", "sender_id").distinct()
        posters = rows.where(F.col("poster") == F.lit(person.sender)).select("poster").distinct()
        seen = {Sighting(*row) for row in found.collect() if row[1] is not None}
        return frozenset(seen | {Sighting(ROOM_CHANNEL, row[0]) for row in posters.collect()})

    def known(self, messages: frozenset[str]) -> frozenset[str]:
        """Those of these messages that facts tell the sender of."""
        if not messages:
            return frozenset()
        return frozenset(_values(self._among(_told_messages(self._named()), "message_id", messages), "message_id"))

    def scope(self, identity: Identity) -> Scope:
        """What is theirs, by all that was ever recorded."""
        rows = self._named()
        names = list(identity.names)
        by_name = F.col("sender").isin(*names)
        told = F.col("table").isNull() | F.col("table").isin("messages", "responses")
        in_chat = (F.col("channel") == identity.channel) & (
            F.col("sender_id").eqNullSafe(F.lit(identity.sender_id or "")) | (F.col("sender_id").isNull() & by_name)
        )
        in_room = (F.col("channel") == ROOM_CHANNEL) & by_name
        messages = _values(rows.where(told & (in_chat | in_room)), "message_id")
        messages |= _values(self._unknown_lines(rows, identity, by_name), "message_id")
        conversations, messages = self._spread(rows, messages)
        inside = self._among(rows, "message_id", messages)
        lines = _values(self._among(rows, "conversation_id", conversations), "line")
        lines |= _values(rows.where(F.col("poster").isin(*names)), "line")
        files = {path for text in _values(inside, "files") for path in paths_in(text)}
        return Scope(
            frozenset(conversations),
            frozenset(messages),
            frozenset(map(int, lines)),
            frozenset(_values(inside, "agent")),
            frozenset(files),
        )

    def erase(self, redaction: Redaction) -> dict[str, int]:
        """Remember the erasure, redact bronze, make all other tables anew from it, and leave nothing of the old ones.

        Done again after it was cut off anywhere, it goes on.
        """
        self._remember(redaction.erasure)
        count = self._redact_bronze(redaction)
        if self._rows is not None:
            self._rows.unpersist()
            self._rows = None
        self._rebuild()
        purge(self._shop.lake)
        return {EVENTS.name: count}

    def _named(self) -> DataFrame:
        """Every event with whom its payload names, without its texts."""
        if self._rows is None:
            self._rows = named_events(self._shop.read(self._shop.open(EVENTS.name))).persist()
        return self._rows

    def _unknown_lines(self, rows: DataFrame, identity: Identity, by_name: Column) -> DataFrame:
        """Lines of histories from before there were events: by name, where no message tells more."""
        lines = rows.where(
            (F.col("table") == "agent_messages")
            & (F.col("role") == "user")
            & F.col("channel").isin(identity.channel, ROOM_CHANNEL)
            & by_name
        )
        return lines.join(_told_messages(rows), "message_id", "left_anti")

    def _spread(self, rows: DataFrame, messages: set[str]) -> tuple[set[str], set[str]]:
        """Until nothing comes in any more: conversations of messages, messages of conversations.

        A run belongs to the conversation of the message that led it, and what was answered there may quote all that
        came along.
        """
        conversations: set[str] = set()
        taken = rows.where(F.size("taken") > 1).select("conversation_id", F.explode("taken").alias("message_id"))
        while True:
            found = _values(self._among(rows, "message_id", messages), "conversation_id")
            found |= _values(self._among(taken, "message_id", messages), "conversation_id")
            grown = messages | _values(self._among(rows, "conversation_id", found), "message_id")
            if found == conversations and grown == messages:
                return conversations, messages
            conversations, messages = found, grown

    def _among(self, rows: DataFrame, column: str, values: Collection[str]) -> DataFrame:
        wanted = self._shop.spark.createDataFrame([(value,) for value in values], f"{column} string")
        return rows.join(F.broadcast(wanted), column, "left_semi")

    def _remember(self, erasure: Erasure) -> None:
        frame = self._shop.spark.createDataFrame([row_of(erasure)], spark_schema(ERASURES))
        self._shop.write(ERASURES.name, lambda snapshot: Plan(frame, snapshot.through_id))

    def _redact_bronze(self, redaction: Redaction) -> int:
        count = 0

        def plan(snapshot: Snapshot) -> Plan | None:
            nonlocal count
            covered = {file.path: _covered(snapshot, file, redaction.erasure) for file in snapshot.files}
            count = sum(number or 0 for number in covered.values())
            touched = [file for file in snapshot.files if covered[file.path] is not None]
            if not touched:
                return None
            return Plan(
                redact(self._shop.read(snapshot, touched), (redaction,)),
                snapshot.through_id,
                touched,
                inspect=lambda staged: _same_events(snapshot, touched, staged),
            )

        self._shop.write(EVENTS.name, plan)
        return count


def named_events(events: DataFrame) -> DataFrame:
    """Events with whom they name and what they belong to, and no text."""
    fact, kind = F.col("fact"), F.col("type")
    is_line = (kind == "chat_posted") | (fact["table"] == "chat_messages")
    text = F.when(kind == "message_received", fact["message"]).when(kind == "response_ready", fact["response"])
    text = text.when(kind == "chat_posted", fact["post"]).when(kind == "row_imported", fact["row"])
    read = facts(events).withColumn("who", F.from_json(text, _WHO))
    who = F.col("who")
    return read.select(
        "id",
        "type",
        "agent",
        fact["table"].alias("table"),
        F.coalesce("message_id", who["message_id"]).alias("message_id"),
        F.coalesce("conversation_id", who["conversation_id"]).alias("conversation_id"),
        *(who[name].alias(name) for name in ("channel", "sender", "sender_id", "role", "files")),
        F.when(is_line, who["id"]).alias("line"),
        F.when(is_line, who["from_agent"]).alias("poster"),
        fact["message_ids"].alias("taken"),
    )


def _told_messages(rows: DataFrame) -> DataFrame:
    return rows.where((F.col("type") == "message_received") | (F.col("table") == "messages")).select("message_id")


def purge(lake: Lake) -> None:
    """Delete every file that is no part of the newest tables, and every log of how they came to be.

    Logs hold bounds of columns, and rooms know people by name: so they go, up to a checkpoint of what is there now.
    """
    manifest = lake.manifest()
    if manifest is None:
        raise LakeBroken(f"{lake.folder} has no manifest. Run `tinyagi pipeline run`, then forget again.")
    vacuum(lake, keep=timedelta(0))
    pins: dict[str, Pin] = {}
    for name, pin in manifest.tables.items():
        # Of a version of its own: until it is durable, readers must not meet the checkpoint of theirs.
        snapshot = open_snapshot(lake, name)
        version = commit(snapshot, Change(snapshot.through_id)).version
        open_snapshot(lake, name).handle.create_checkpoint()
        sync_version(snapshot.folder, version)
        pins[name] = Pin(version, pin.through_id)
    write_manifest(lake.manifest_file, replace(manifest, tables=pins))
    for name, pin in pins.items():
        log = lake.path(name) / LOG
        for file in _outdated(log, pin.version):
            file.unlink()
        sync(log)


def _outdated(log: Path, version: int) -> Iterable[Path]:
    """Commits and checkpoints of earlier versions."""
    return [file for file in log.iterdir() if file.name[:20].isdigit() and int(file.name[:20]) < version]


def _covered(snapshot: Snapshot, file: DataFile, erasure: Erasure) -> int | None:
    """How many events of a file the erasure covers, by the narrow columns; None when it cannot hold anything of theirs.

    A fact that belongs to nothing may be theirs by its payload alone; the redaction looks at that.
    """
    low = file.statistics.minimum.get("id")
    if isinstance(low, int) and low > erasure.through_id:
        return None
    columns = ["type", "message_id", "conversation_id", "agent"]
    rows = pq.read_table(snapshot.folder / file.path, columns=columns, partitioning=None)
    by_conversation = pc.is_in(rows["conversation_id"], pa.array(erasure.conversations, pa.string()))
    by_message = pc.is_in(rows["message_id"], pa.array(erasure.messages, pa.string()))
    by_lane = pc.and_(
        pc.equal(rows["type"], "lane_held"), pc.is_in(rows["agent"], pa.array(erasure.agents, pa.string()))
    )
    count = int(pc.sum(pc.or_(by_conversation, pc.or_(by_message, by_lane))).as_py() or 0)
    is_odd = bool(pc.any(pc.is_in(rows["type"], pa.array(_LONE))).as_py())
    return count if count or is_odd else None


def _same_events(snapshot: Snapshot, files: Collection[DataFile], staged: Staged) -> Inspected:
    """No event may be lost or doubled on the way."""
    before = _tally([str(snapshot.folder / file.path) for file in files])
    after = _tally([str(staged.folder / file) for file in staged.files])
    if before != after:
        raise LakeBroken(f"Of {before[0]} events {after[0]} were to be left. Nothing was written; try again.")
    return Inspected(snapshot.through_id, {"erased": before[0]})


def _tally(files: Collection[str]) -> tuple[int, int]:
    ids = ds.dataset(list(files), format="parquet").to_table(columns=["id"]).column("id")
    return len(ids), pc.sum(ids).as_py() or 0


def _values(rows: DataFrame, column: str) -> set[Any]:
    return {row[0] for row in rows.select(column).distinct().collect() if row[0] is not None}
