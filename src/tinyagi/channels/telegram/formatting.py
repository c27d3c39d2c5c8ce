"""An agent's Markdown as Telegram's HTML. Pure, and total for any text; what people see is never longer than it."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final

from tinyagi.channels.telegram import utf16
from tinyagi.channels.telegram.inline_markup import inline

_FENCE: Final = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)")
_LANGUAGE: Final = re.compile(r"[\w+#.-]+", re.ASCII)
_QUOTE: Final = re.compile(r"(?: {0,3}> ?)+")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*")
_RULE: Final = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_SIGNATURE: Final = re.compile(r"- \[[a-z0-9][a-z0-9_-]*\]")
"""The agent's name below an answer; not an item of a list."""
_BULLET: Final = re.compile(r"(?P<indent>[ \t]*)[-*+][ \t]+(?:\[(?P<box>[ xX])\][ \t]+)?(?P<item>.*)")
_NUMBERED: Final = re.compile(r"(?P<number>[ \t]*\d{1,9}[.)][ \t]+)(?P<item>.*)")
_TABLE_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_BOLD: Final = re.compile(r"</?b>")
_TAG: Final = re.compile(r"<[^<>]*>")


def to_html(markdown: str) -> str:
    """The text in Telegram's HTML; the source itself where the markup would leave nothing to see."""
    source = utf16.clean(markdown)
    html = "\n".join(_blocks(source.split("\n")))
    return html if _TAG.sub("", html).strip() else escape(source, quote=False)


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        html, at = _block(lines, at)
        yield html


def _block(lines: Sequence[str], at: int) -> tuple[str, int]:
    """The block that begins at this line, and the line after it."""
    line = lines[at]
    if fence := _FENCE.fullmatch(line):
        return _code(lines, at, fence)
    if _QUOTE.match(line):
        end = _end(lines, at, lambda text: _QUOTE.match(text) is not None)
        # Telegram refuses a quote in a quote, so all levels are one.
        inner = "\n".join(_blocks([_QUOTE.sub("", text, count=1) for text in lines[at:end]]))
        return f"<blockquote>{inner}</blockquote>", end
    if _is_table(lines, at):
        end = _end(lines, at, lambda text: "|" in text)
        return f"<pre>{escape(chr(10).join(lines[at:end]), quote=False)}</pre>", end
    if (single := _single_line(line)) is not None:
        return single, at + 1
    end = at + 1
    while end < len(lines) and not _begins_block(lines, end):
        end += 1
    return inline("\n".join(lines[at:end])), end


def _single_line(line: str) -> str | None:
    """A blank line, rule, heading or list item; None for anything else."""
    if not line.strip():
        return ""
    if _RULE.fullmatch(line):
        return "———"
    if heading := _HEADING.fullmatch(line):
        title = _BOLD.sub("", inline(heading["title"]))
        return f"<b>{title}</b>" if title else ""
    if (bullet := _BULLET.fullmatch(line)) and not _SIGNATURE.fullmatch(line):
        sign = "•" if bullet["box"] is None else "☐" if bullet["box"] == " " else "☑"
        return f"{bullet['indent']}{sign} {inline(bullet['item'])}"
    if numbered := _NUMBERED.fullmatch(line):
        return numbered["number"] + inline(numbered["item"])
    return None


def _begins_block(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    return (
        _single_line(line) is not None
        or _FENCE.fullmatch(line) is not None
        or _QUOTE.match(line) is not None
        or _is_table(lines, at)
    )


def _is_table(lines: Sequence[str], at: int) -> bool:
    return (
        "|" in lines[at]
        and at + 1 < len(lines)
        and "|" in lines[at + 1]
        and _TABLE_RULE.fullmatch(lines[at + 1]) is not None
    )


def _code(lines: Sequence[str], at: int, fence: re.Match[str]) -> tuple[str, int]:
    """A fenced block up to its closing fence, or to the end of the text."""
    closing = re.compile(rf"[ \t]*{fence['fence'][0]}{{{len(fence['fence'])},}}[ \t]*")
    end = _end(lines, at + 1, lambda text: closing.fullmatch(text) is None)
    indent = fence["indent"]
    code = escape("\n".join(line.removeprefix(indent) for line in lines[at + 1 : end]), quote=False)
    language = _LANGUAGE.match(fence["info"])
    if language:
        return f'<pre><code class="language-{language[0]}">{code}</code></pre>', end + 1
    return f"<pre>{code}</pre>", end + 1


def _end(lines: Sequence[str], at: int, belongs: Callable[[str], bool]) -> int:
    """The first line from `at` on that does not belong to the block."""
    return next((end for end in range(at, len(lines)) if not belongs(lines[end])), len(lines))
