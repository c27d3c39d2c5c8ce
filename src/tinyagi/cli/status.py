"""`tinyagi status`: the daemon, its queue and its lanes on one screen."""

from typing import TYPE_CHECKING, Final

import typer

from tinyagi.cli.options import Json
from tinyagi.cli.run import HomeOption

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.api.queue import LaneStatus, QueueStatus
    from tinyagi.api.status import PipelineStatus, Status
    from tinyagi.cli.context import Place
    from tinyagi.daemon.pidfile import Sighting

NOT_RUNNING: Final = 3
"""The exit code that service managers expect."""


def status(context: typer.Context, home: HomeOption = None, as_json: Json = False) -> None:
    """Show how the daemon is, what waits and what runs; exit code 3 when it is not running."""
    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415 - see above
    from tinyagi.cli.screen import note, print_json  # noqa: PLC0415
    from tinyagi.client.errors import NotRunning  # noqa: PLC0415
    from tinyagi.daemon.pidfile import Sighting, State, look  # noqa: PLC0415

    place = place_of(context) if home is None else Place(home, place_of(context).url)
    found = look(place.home) if place.url is None else Sighting(State.UNKNOWN)
    try:
        daemon, queue, lanes = _asked(place, found)
    except NotRunning:
        if as_json:
            print_json({"ok": False, "running": False, "state": found.state, "home": str(place.home.path)})
        else:
            note(_absence(place, found))
        raise typer.Exit(NOT_RUNNING) from None
    if as_json:
        whole = daemon.model_dump(by_alias=True, mode="json")
        print_json({**whole, "running": True, "pid": found.pid or None, "queue": queue, "lanes": lanes})
    else:
        _show(place, found, daemon, queue, lanes)


def _asked(place: "Place", found: "Sighting") -> "tuple[Status, QueueStatus, list[LaneStatus]]":
    import asyncio  # noqa: PLC0415

    from tinyagi.cli.context import CLIENT_NAME  # noqa: PLC0415
    from tinyagi.client.client import Client  # noqa: PLC0415
    from tinyagi.client.errors import NotRunning  # noqa: PLC0415

    if place.url is None and found.url is None:
        # Whoever answers at the port of the settings now is not this home's daemon.
        raise NotRunning(place.address().url)

    async def asking() -> "tuple[Status, QueueStatus, list[LaneStatus]]":
        address = place.address()
        async with Client(address.url, address.token, client_name=CLIENT_NAME) as client:
            return await client.status(), await client.queue.status(), await client.queue.lanes()

    return asyncio.run(asking())


def _absence(place: "Place", found: "Sighting") -> str:
    from tinyagi.daemon.pidfile import State, refusal  # noqa: PLC0415

    if place.url is not None:
        return f"TinyAGI is not running at {place.url}."
    if found.state is State.UNKNOWN:
        return refusal(place.home, found)
    if found.is_up:
        return f"TinyAGI (pid {found.pid}) does not answer yet. See what it does with: tinyagi logs daemon"
    stale = f" Its pid file {found.leftover}: it did not end by itself." if found.state is State.STALE else ""
    return f"TinyAGI is not running on {place.home.path}.{stale} Start it with: tinyagi start"


def _show(place: "Place", found: "Sighting", daemon: "Status", queue: "QueueStatus", lanes: "list[LaneStatus]") -> None:
    from tinyagi.cli.screen import duration, print_fields, print_table, when  # noqa: PLC0415

    beat = daemon.heartbeat
    last = f", last {when(beat.last_sent)}" if beat.last_sent else ""
    channels = [f"{name} ({'runs' if one.running else 'stopped'})" for name, one in daemon.channels.items()]
    print_fields(
        (
            ("TinyAGI", f"{daemon.version}, up {duration(daemon.uptime * 1000)}"),
            ("address", place.address().url),
            ("process", found.pid or None),
            ("home", None if place.url else place.home.path),
            ("runs", daemon.engine.runs),
            ("queue", f"{queue.pending} waiting, {queue.processing} in work, {queue.dead} dead"),
            ("answers", f"{queue.outgoing} not delivered yet"),
            ("heartbeat", f"every {beat.interval:g} s{last}" if beat.running else "off"),
            ("channels", ", ".join(channels) or "none"),
            ("lake", _lake(daemon.pipeline)),
            ("failing", "; ".join(_failing(daemon)) or None),
            ("restart", f"needed for {', '.join(daemon.needs_restart)}" if daemon.needs_restart else None),
        )
    )
    print_table(
        ("agent", "waiting#", "in work#", "dead#", "state"),
        [(f"@{lane.agent}", lane.pending, lane.processing, lane.dead, _state(lane)) for lane in lanes],
        empty="No agent has had a message yet.",
    )


def _failing(daemon: "Status") -> list[str]:
    from tinyagi.cli.screen import when  # noqa: PLC0415

    tasks = [(name, task) for name, task in daemon.background.items() if task.state == "failing"]
    return [f"{name} since {when(task.since)}: {task.last_error}" for name, task in tasks]


def _lake(pipeline: "PipelineStatus") -> str:
    from tinyagi.cli.screen import duration  # noqa: PLC0415

    if pipeline.lag_events is None:
        return "off"
    age = duration(round((pipeline.lag_seconds or 0) * 1000))
    behind = f"{pipeline.lag_events} events behind, the oldest {age} old" if pipeline.lag_events else "up to date"
    parts = (
        behind,
        "the pipeline runs" if pipeline.running else None,
        None if pipeline.enabled else "nobody runs the pipeline",
        f"its last run failed: {pipeline.last_error}" if pipeline.last_error else None,
    )
    return "; ".join(part for part in parts if part)


def _state(lane: "LaneStatus") -> str:
    from tinyagi.cli.screen import when  # noqa: PLC0415

    if lane.paused:
        return "paused"
    return f"held until {when(lane.hold_until)}: {lane.hold_reason}" if lane.hold_until else ""
