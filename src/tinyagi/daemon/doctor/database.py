"""The database: whether it is whole and of this version, and what in it waits for a person."""

import time
from collections.abc import Iterator

from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, problem, warning
from tinyagi.domain.errors import StoreError
from tinyagi.store.health import StoreHealth
from tinyagi.wiring import examine_store


def database(subject: Subject) -> Iterator[Finding]:
    path = subject.home.database
    if not path.exists():
        yield hint("Database", f"{path} is not there yet.", "tinyagi start makes it.")
        return
    try:
        found = examine_store(subject.home)
    except StoreError as error:
        yield problem("Database", str(error), "See what backups there are: tinyagi backup list")
        return
    yield _condition(subject, found)
    yield from _waiting(found)


def _condition(subject: Subject, found: StoreHealth) -> Finding:
    path = subject.home.database
    size = f"{found.size / 1024**2:.1f} MiB"
    if found.verdict != "ok":
        return problem(
            "Database",
            f"{path} is damaged: {found.verdict}",
            "Stop the daemon and restore a backup: tinyagi backup list, then tinyagi backup restore NAME",
        )
    if found.version > found.newest:
        return problem(
            "Database",
            f"{path} was written by a newer TinyAGI (schema {found.version}, this version knows {found.newest}).",
            "Install that version, or use another home.",
        )
    if found.version < found.newest:
        return hint(
            "Database",
            f"{path} ({size}) is of an earlier version (schema {found.version} of {found.newest}).",
            "The next start brings it up to date, after a backup.",
        )
    return ok("Database", f"{path}, whole, {size}, schema {found.version}")


def _waiting(found: StoreHealth) -> Iterator[Finding]:
    dead = [lane for lane in found.lanes if lane.dead]
    if dead:
        lanes = ", ".join(f"@{lane.agent} {lane.dead}" for lane in dead)
        yield hint("Dead messages", lanes, "See why with `tinyagi queue dead`; try again with `tinyagi queue retry`.")
    for lane in found.lanes:
        waits = f", {lane.pending} messages wait" if lane.pending else ""
        if lane.paused:
            yield hint("Lane", f"@{lane.agent} is paused{waits}.", f"Let it go on: tinyagi queue resume {lane.agent}")
        elif lane.hold_until > time.time_ns() // 1_000_000:
            yield warning(
                "Lane",
                f"@{lane.agent} is held{waits}: {lane.hold_reason or 'its provider could not work'}",
                f"It goes on by itself; mend the cause, then: tinyagi queue resume {lane.agent}",
            )
