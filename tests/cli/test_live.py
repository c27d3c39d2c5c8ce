"""The live text of running agents on a terminal."""

import io

import pytest
from rich.console import Console

from tinyagi.cli import live
from tinyagi.cli.live import LiveView


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Console:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=40, height=12, color_system=None)
    monkeypatch.setattr(live, "console", lambda *, err: terminal)
    return terminal


def lines(stage: LiveView, screen: Console) -> list[str]:
    with screen.capture() as captured:
        screen.print(stage.render())
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_long_paragraph_is_wrapped(screen: Console) -> None:
    stage = LiveView()
    stage.says("coder", "I read the whole repository first, and then I change the login form.")

    assert lines(stage, screen)[1:] == ["I read the whole repository first, and", "then I change the login form."]


def test_the_last_lines_are_shown_when_the_text_is_longer_than_the_screen(screen: Console) -> None:
    stage = LiveView()
    stage.says("coder", " ".join(f"word{number:03}" for number in range(200)))

    shown = lines(stage, screen)

    assert len(shown) <= screen.height
    assert shown[0] == "@coder …"
    assert "word199" in shown[-1]


def test_every_running_agent_is_shown(screen: Console) -> None:
    stage = LiveView()
    for agent in ("coder", "writer", "tester"):
        stage.says(agent, f"{agent} says " + "something " * 100)

    shown = lines(stage, screen)

    assert len(shown) <= screen.height
    assert [line for line in shown if "@" in line] == ["@coder …", "@writer …", "@tester …"]
