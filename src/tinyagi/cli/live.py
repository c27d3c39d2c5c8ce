"""Shows a conversation as it happens: live text of runs on stderr, complete answers on stdout."""

import sys
from types import TracebackType
from typing import Final, Self

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from tinyagi.cli.terminal import console, note, readable
from tinyagi.client.conversation import AgentAnswer, Audience
from tinyagi.domain.texts import one_line

LINES: Final = 8
"""Lines on the screen for each running agent, at most."""
MAX_LIVE_CHARS: Final = 4_000
MAX_ERROR_CHARS: Final = 800
"""Characters of an error with its remedy."""


class QuietView(Audience):
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class LiveView(Audience):
    """Shows the conversation on a terminal; without one, prints only answers and errors."""

    def __init__(self) -> None:
        self._console = console(err=True)
        self._running: dict[str, str] = {}
        self._live = Live(console=self._console, transient=True, refresh_per_second=8) if self._is_terminal else None

    @property
    def _is_terminal(self) -> bool:
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

    def warns(self, sentence: str) -> None:
        self._print_note(Text(readable(sentence), style="yellow"))

    def begins(self, agent: str) -> None:
        self._running[agent] = ""
        self._refresh()

    def says(self, agent: str, text: str) -> None:
        self._running[agent] = (self._running.get(agent, "") + text)[-MAX_LIVE_CHARS:]
        self._refresh()

    def answers(self, answer: AgentAnswer) -> None:
        self._running.pop(answer.agent, None)
        self._refresh()
        # Names go to stderr, so that a pipe gets only the answers.
        self._print_note(Text(f"@{answer.agent}", style="bold cyan"))
        self._print_answer(f"{readable(answer.text)}\n")

    def reports(self, agent: str, sentence: str) -> None:
        self._running.pop(agent, None)
        self._refresh()
        self._print_note(Text(one_line(sentence, MAX_ERROR_CHARS), style="yellow"))

    def _print_note(self, text: Text) -> None:
        if self._is_terminal:
            self._console.print(text)
        else:
            note(text.plain)

    def _print_answer(self, text: str) -> None:
        if self._live is not None:
            self._live.stop()
        typer.echo(text, file=sys.stdout)
        if self._live is not None:
            self._live.start()

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self.render())

    def render(self) -> Group:
        """The last lines of each running agent's text, as many as fit on the screen."""
        shown: list[Text] = []
        lines = min(LINES, max(1, (self._console.height - 1) // max(1, len(self._running)) - 1))
        for agent, text in self._running.items():
            shown.append(Text(f"@{agent} …", style="cyan"))
            shown += Text(readable(text), style="dim").wrap(self._console, self._console.width)[-lines:]
        return Group(*shown)
