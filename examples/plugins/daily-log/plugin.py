"""Keeps a diary: every answer goes into one Markdown file per day, in logs/daily-log of the home."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tinyagi.domain.events import RecordedEvent
from tinyagi.plugins.specs import PluginContext


def activate(ctx: PluginContext) -> None:
    folder = ctx.home / "logs" / "daily-log"
    folder.mkdir(parents=True, exist_ok=True)
    ctx.on("response_ready", partial(write, folder))


def write(folder: Path, event: RecordedEvent) -> None:
    """Append one answer. A plain function may block: it runs in the plugin's own thread."""
    answer = event.payload["response"]
    moment = datetime.fromtimestamp(event.created_at / 1000, UTC).astimezone()
    sender = " ".join(answer["sender"].split())
    quoted = "\n".join(f"> {line}".rstrip() for line in answer["message"].splitlines())
    with (folder / f"{moment:%Y-%m-%d}.md").open("a", encoding="utf-8") as day:
        day.write(f"## {moment:%H:%M} · @{answer['agent']} to {sender} ({answer['channel']})\n\n{quoted}\n\n")
