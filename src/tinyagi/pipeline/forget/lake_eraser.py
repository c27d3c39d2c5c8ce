"""Erases a person from the lake: finds their events in bronze, redacts them, rebuilds the rest, purges old files."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.erasure import Erasure, Identity, Person, Redaction, Scope, SenderAlias
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import paths_in
from tinyagi.pipeline.delta.commit import Change, commit
from tinyagi.pipeline.delta.optimize import vacuum
from tinyagi.pipeline.delta.parquet_files import WrittenFile
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_snapshot, sync_version
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.forget.erasures import erasure_row
from tinyagi.pipeline.ingest.bronze import redact
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LOG, Pin, write_manifest
from tinyagi.pipeline.spark.lake_session import Inspected, LakeSession, WritePlan
from tinyagi.pipeline.tables.catalog import ERASURES, EVENTS
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.columns import person as person_column
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.parsed_events import parsed_events
from tinyagi.pipeline.transform.rows import apply
from tinyagi.system.files import sync

_PERSON_FIELDS: Final = """
  id bigint, channel string, sender string, sender_id string, message_id string, conversation_id string, role string,
  from_agent string, files string
"""
# Event types that may concern a person although only the payload shows it.
_PAYLOAD_ONLY: Final = ("chat_posted", "response_ready", "row_imported")


class LakeEraser:
    """One lake that is open for writing. `rebuild` recomputes every other table from bronze: `Pipeline.backfill`."""

    def __init__(self, session: LakeSession, rebuild: Callable[[], object]) -> None:
        self._session = session
        self._rebuild = rebuild
        self._rows: DataFrame | None = None

    def sightings(self, person: Person) -> frozenset[SenderAlias]:
        """Every channel, name and id under which events mention a person who may be meant."""
        rows = self._named()
        is_meant = person_column() == F.lit(person.sender_id)
        if person.sender_id is None:
            is_meant = (F.col("sender") == F.lit(person.sender)) & (F.coalesce("role", F.lit("user")) == "user")
        found = rows.where(is_meant & F.col("channel").isNotNull()).select("channel", "sender", "sender_id").distinct()
        posters = rows.where(F.col("poster") == F.lit(person.sender)).select("poster").distinct()
        seen = {SenderAlias(*row) for row in found.collect() if row[1] is not None}
        return frozenset(seen | {SenderAlias(ROOM_CHANNEL, row[0]) for row in posters.collect()})

    def known(self, messages: frozenset[str]) -> frozenset[str]:
        """The messages among these whose sender is in an event."""
        if not messages:
            return frozenset()
        return frozenset(_values(self._among(_received_messages(self._named()), "message_id", messages), "message_id"))

    def scope(self, identity: Identity) -> Scope:
        """Everything in bronze that belongs to the person."""
        rows = self._named()
        names = list(identity.names)
        by_name = F.col("sender").isin(*names)
        has_sender = F.col("table").isNull() | F.col("table").isin("messages", "responses")
        in_chat = (F.col("channel") == identity.channel) & (
            person_column().eqNullSafe(F.lit(identity.sender_id or "")) | (F.col("sender_id").isNull() & by_name)
        )
        in_room = (F.col("channel") == ROOM_CHANNEL) & by_name
        messages = _values(rows.where(has_sender & (in_chat | in_room)), "message_id")
        messages |= _values(self._unknown_lines(rows, identity, by_name), "message_id")
        conversations, messages = self._closure(rows, messages)
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
        """Record the erasure, redact bronze, rebuild all other tables from it, and delete the old files.

        After an interruption, a second call continues.
        """
        self._record(redaction.erasure)
        count = self._redact_bronze(redaction)
        if self._rows is not None:
            self._rows.unpersist()
            self._rows = None
        self._rebuild()
        purge(self._session.lake)
        return {EVENTS.name: count}

    def _named(self) -> DataFrame:
        """`named_events` of bronze, cached."""
        if self._rows is None:
            self._rows = named_events(self._session.read(self._session.open(EVENTS.name))).persist()
        return self._rows

    def _unknown_lines(self, rows: DataFrame, identity: Identity, by_name: Column) -> DataFrame:
        """History lines without an event of their message: only the sender's name assigns them."""
        lines = rows.where(
            (F.col("table") == "agent_messages")
            & (F.col("role") == "user")
            & F.col("channel").isin(identity.channel, ROOM_CHANNEL)
            & by_name
        )
        return lines.join(_received_messages(rows), "message_id", "left_anti")

    def _closure(self, rows: DataFrame, messages: set[str]) -> tuple[set[str], set[str]]:
        """Add conversations of messages and messages of conversations until nothing changes.

        A run belongs to the conversation of its first message, and its answer may quote all messages of the run.
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
        wanted = self._session.spark.createDataFrame([(value,) for value in values], f"{column} string")
        return rows.join(F.broadcast(wanted), column, "left_semi")

    def _record(self, erasure: Erasure) -> None:
        rows = pa.Table.from_pylist([erasure_row(erasure)], arrow_schema(ERASURES))
        self._session.write(ERASURES.name, lambda snapshot: WritePlan(rows, snapshot.through_id))

    def _redact_bronze(self, redaction: Redaction) -> int:
        count = 0

        def plan(snapshot: Snapshot) -> WritePlan | None:
            nonlocal count
            covered = {file.path: _covered(snapshot, file, redaction.erasure) for file in snapshot.files}
            count = sum(number or 0 for number in covered.values())
            touched = [file for file in snapshot.files if covered[file.path] is not None]
            if not touched:
                return None
            return WritePlan(
                apply(
                    self._session.read_in_tasks(snapshot, touched), redact((redaction,)), spark_schema(snapshot.table)
                ),
                snapshot.through_id,
                touched,
                inspect=lambda written: _same_events(snapshot, touched, written),
            )

        self._session.write(EVENTS.name, plan)
        return count


def named_events(events: DataFrame) -> DataFrame:
    """Events with the people they name and their message and conversation, without texts."""
    payload, kind = F.col("payload"), F.col("type")
    is_line = (kind == "chat_posted") | (payload["table"] == "chat_messages")
    text = F.when(kind == "message_received", payload["message"]).when(kind == "response_ready", payload["response"])
    text = text.when(kind == "chat_posted", payload["post"]).when(kind == "row_imported", payload["row"])
    parsed = parsed_events(events).withColumn("person", F.from_json(text, _PERSON_FIELDS))
    person = F.col("person")
    return parsed.select(
        "id",
        "type",
        "agent",
        payload["table"].alias("table"),
        F.coalesce("message_id", person["message_id"]).alias("message_id"),
        F.coalesce("conversation_id", person["conversation_id"]).alias("conversation_id"),
        *(person[name].alias(name) for name in ("channel", "sender", "sender_id", "role", "files")),
        F.when(is_line, person["id"]).alias("line"),
        F.when(is_line, person["from_agent"]).alias("poster"),
        payload["message_ids"].alias("taken"),
    )


def _received_messages(rows: DataFrame) -> DataFrame:
    return rows.where((F.col("type") == "message_received") | (F.col("table") == "messages")).select("message_id")


def _covered(snapshot: Snapshot, file: DataFile, erasure: Erasure) -> int | None:
    """The number of events in a file that the erasure covers, from the id columns; None when no rewrite is needed.

    An event without ids may concern the person by its payload alone; `redact` checks that.
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
    needs_redaction = bool(pc.any(pc.is_in(rows["type"], pa.array(_PAYLOAD_ONLY))).as_py())
    return count if count or needs_redaction else None


def _same_events(snapshot: Snapshot, files: Collection[DataFile], written: Sequence[WrittenFile]) -> Inspected:
    """Check that no event is lost or duplicated."""
    before = _count_and_sum([str(snapshot.folder / file.path) for file in files])
    after = (sum(file.rows for file in written), sum(file.id_sum for file in written))
    if before != after:
        raise LakeBroken(f"Redaction would keep {after[0]} of {before[0]} events. Nothing was written. Try again.")
    return Inspected(snapshot.through_id, {"erased": before[0]})


def _count_and_sum(files: Collection[str]) -> tuple[int, int]:
    ids = ds.dataset(list(files), format="parquet").to_table(columns=["id"]).column("id")
    return len(ids), pc.sum(ids).as_py() or 0


def _values(rows: DataFrame, column: str) -> set[Any]:
    return {row[0] for row in rows.select(column).distinct().collect() if row[0] is not None}


def purge(lake: Lake) -> None:
    """Delete every file that the newest versions do not use, and every log entry before a new checkpoint.

    Logs hold bounds of columns, and chat rooms have people's names in them, so old log entries must go.
    """
    manifest = lake.manifest()
    if manifest is None:
        raise LakeBroken(
            f"{lake.folder} has no manifest. Run `tinyagi pipeline run`, then `tinyagi pipeline forget` again."
        )
    vacuum(lake, keep=timedelta(0))
    pins: dict[str, Pin] = {}
    for name, pin in manifest.tables.items():
        # Checkpoint a new version: readers must not see a checkpoint of theirs before it is durable.
        snapshot = open_snapshot(lake, name)
        version = commit(snapshot, Change(snapshot.through_id)).version
        open_snapshot(lake, name).handle.create_checkpoint()
        sync_version(snapshot.folder, version)
        pins[name] = Pin(version, pin.through_id)
    write_manifest(lake.manifest_file, replace(manifest, tables=pins))
    for name, pin in pins.items():
        log = lake.path(name) / LOG
        for file in _old_log_files(log, pin.version):
            file.unlink()
        sync(log)


def _old_log_files(log: Path, version: int) -> Iterable[Path]:
    """Commits and checkpoints of earlier versions."""
    return [file for file in log.iterdir() if file.name[:20].isdigit() and int(file.name[:20]) < version]
