"""Shows a conversation while it goes on: what runs say in place, on stderr; answers, once complete, on stdout."""

from types import TracebackType
from typing import Final, Self

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from tinyagi.cli.conversation import Answer
from tinyagi.cli.screen import console, note, readable
from tinyagi.domain.texts import one_line

LINES: Final = 8
"""Of what each running agent says."""
KEPT: Final = 4_000


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begins(self, agent: str) -> None: ...

    def says(self, agent: str, text: str) -> None: ...

    def answers(self, answer: Answer) -> None: ...

    def stumbles(self, agent: str, reason: str) -> None: ...


class Stage:
    """A person in front of a terminal; without one, only answers and troubles are shown."""

    def __init__(self) -> None:
        self._console = console(err=True)
        self._running: dict[str, str] = {}
        self._live = Live(console=self._console, transient=True, refresh_per_second=8) if self._is_seen else None

    @property
    def _is_seen(self) -> bool:
        return self._console.is_terminal

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def begins(self, agent: str) -> None:
        self._running[agent] = ""
        self._refresh()

    def says(self, agent: str, text: str) -> None:
        self._running[agent] = (self._running.get(agent, "") + text)[-KEPT:]
        self._refresh()

    def answers(self, answer: Answer) -> None:
        self._running.pop(answer.agent, None)
        self._refresh()
        # Names go beside the answers: whoever pipes them wants the answers alone.
        self._beside(Text(f"@{answer.agent}", style="bold cyan"))
        self._print(f"{readable(answer.text)}\n")

    def stumbles(self, agent: str, reason: str) -> None:
        self._running.pop(agent, None)
        self._refresh()
        self._beside(Text(f"@{agent}: {one_line(reason)}", style="yellow"))

    def _beside(self, text: Text) -> None:
        if self._is_seen:
            self._console.print(text)
        else:
            note(text.plain)

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.stop()
        typer.echo(text)
        if self._live is not None:
            self._live.start()

    def _refresh(self) -> None:
        if self._live is None:
            return
        shown = []
        for agent, said in self._running.items():
            lines = readable(said).splitlines()[-LINES:]
            shown.append(Text(f"@{agent} …", style="cyan"))
            shown += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in lines]
        self._live.update(Group(*shown))
