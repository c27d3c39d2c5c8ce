"""Markdown as WhatsApp shows it: *bold*, _italic_, ~strike~, code; links as text. The result is never longer."""

import re
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*")
_BULLET: Final = re.compile(r"([ \t]*)[*+]([ \t]+)(?=\S)")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_INLINE: Final = re.compile(
    r"""
    \\(?P<escaped>[!-/:-@\[-`{-~])
  | (?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)
  | !?\[(?P<label>[^\[\]]*)\]\((?P<address>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ ]+"[^"]*")?\)
  | <(?P<autolink>https?://[^\s<>]+)>
  | (?P<bare>https?://[^\s<>*~]+)
  | \*\*\*(?=[^\s*])(?P<both>.+?)(?<=[^\s*])\*\*\*(?!\*)
  | \*\*(?=[^\s*]|\*[^\s*])(?P<bold>.+?)(?<=\S)\*\*(?!\*)
  | (?<!\w)__(?=\S)(?P<bold2>.+?)(?<=\S)__(?!\w)
  | ~~(?=\S)(?P<strike>.+?)(?<=\S)~~
  | (?<![\w*])\*(?=[^\s*])(?P<italic>.+?)(?<=[^\s*])\*(?![\w*])
    """,
    re.VERBOSE,
)
_DEEPEST: Final = 8
"""Levels of markup within markup; what is deeper stays as it is."""


def to_whatsapp(markdown: str) -> str:
    """Convert a text of an agent; every text has a result."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        match = _FENCE.fullmatch(line)
        if fence:
            is_end = match is not None and match[1].startswith(fence) and not match[2].strip()
            lines.append("```" if is_end else line)
            fence = "" if is_end else fence
        elif match is not None and "`" not in match[2]:
            fence = match[1]
            lines.append("```")
        else:
            lines.append(_line(line))
    return "\n".join(lines)


def _line(line: str) -> str:
    if heading := _HEADING.fullmatch(line):
        text = _inline(heading[1], is_bold=True).strip()
        return f"*{text}*" if text else ""
    if _RULE.fullmatch(line):
        return "---"
    if bullet := _BULLET.match(line):
        return f"{bullet[1]}-{bullet[2]}{_inline(line[bullet.end() :])}"
    return _inline(line)


def _inline(text: str, *, is_bold: bool = False, depth: int = 0) -> str:
    if depth > _DEEPEST:
        return text
    return _INLINE.sub(lambda match: _converted(match, is_bold, depth + 1), text)


def _converted(match: re.Match[str], is_bold: bool, depth: int) -> str:
    """One piece of markup; inside bold there is no second bold, because WhatsApp would end the first there."""
    kind, text = match.lastgroup, match[0]
    if kind == "escaped":
        return match["escaped"]
    if kind == "address":
        return _link(_inline(match["label"], is_bold=is_bold, depth=depth).strip(), match["address"])
    if kind == "autolink":
        return match["autolink"]
    if kind in {"both", "bold", "bold2"}:
        inner = _inline(match[kind], is_bold=True, depth=depth)
        inner = f"_{inner}_" if kind == "both" else inner
        return inner if is_bold else f"*{inner}*"
    if kind in {"strike", "italic"}:
        sign = "~" if kind == "strike" else "_"
        return f"{sign}{_inline(match[kind], is_bold=is_bold, depth=depth)}{sign}"
    return text


def _link(label: str, address: str) -> str:
    if not address or not label or label == address.removeprefix("mailto:"):
        return label or address
    return f"{label} ({address})"
