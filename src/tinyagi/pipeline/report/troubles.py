"""What went wrong: causes of death, alerts, events that could not be believed."""

from typing import Final

from tinyagi.pipeline.report.gold import GoldReader, instant, text, whole
from tinyagi.pipeline.report.model import Alert, Cause, QuarantineReason

ALERTS: Final = 20
"""How many are listed."""

Row = dict[str, object]


def causes(gold: GoldReader) -> tuple[Cause, ...]:
    columns = ("agent", "fingerprint", "error_kind", "error", "messages", "still_dead")
    rows = gold.rows("gold.dead_letters", (*columns, "first_at", "last_at", "example_id")).to_pylist()
    by_fingerprint: dict[str, list[Row]] = {}
    for row in rows:
        by_fingerprint.setdefault(text(row["fingerprint"]), []).append(row)
    found = [_cause(fingerprint, same) for fingerprint, same in by_fingerprint.items()]
    return tuple(sorted(found, key=lambda one: (-one.messages, one.fingerprint)))


def _cause(fingerprint: str, rows: list[Row]) -> Cause:
    latest = max(rows, key=lambda row: whole(row["last_at"]))
    return Cause(
        fingerprint=fingerprint,
        error_kind=text(latest["error_kind"]),
        error=text(latest["error"]),
        agents=tuple(sorted({text(row["agent"]) for row in rows})),
        messages=sum(whole(row["messages"]) for row in rows),
        still_dead=sum(whole(row["still_dead"]) for row in rows),
        first_at=min((at for row in rows if (at := instant(row["first_at"])) is not None), default=None),
        last_at=instant(latest["last_at"]),
        example_id=instant(latest["example_id"]),
    )


def alerts(gold: GoldReader) -> tuple[Alert, ...]:
    rows = gold.rows("gold.alerts", ("rule", "agent", "hour", "text")).to_pylist()
    found = [Alert(text(row["rule"]), text(row["agent"]), whole(row["hour"]), text(row["text"])) for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.hour, one.rule, one.agent))[:ALERTS])


def quarantine(gold: GoldReader) -> tuple[QuarantineReason, ...]:
    rows = gold.rows("quarantine.events", ("reason",)).group_by("reason").aggregate([([], "count_all")])
    found = [QuarantineReason(text(row["reason"]), whole(row["count_all"])) for row in rows.to_pylist()]
    return tuple(sorted(found, key=lambda one: (-one.events, one.reason)))
