"""Markdown within a paragraph as Telegram's HTML: emphasis, code and links. Pure, and total for any text."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    \\ (?P<escaped> [!-/:-@\[-`{-~\n] )
    | (?P<ticks> `+ )
    | (?P<image> !? ) \[ (?P<label> (?: [^\[\]\\] | \\. | \[ [^\[\]]* \] )*+ ) \]
      \( [ ]* (?: < (?P<angled> [^<>\n]* ) > | (?P<bare> [^\s()<>]*+ (?: \( [^\s()<>]* \) [^\s()<>]*+ )*+ ) )
      (?: \s+ (?: "[^"\n]*" | '[^'\n]*' ) )? [ ]* \)
    | < (?P<autolink> (?: https?:// | mailto: ) [^\s<>]+ ) >
    | (?P<url> (?<! \w ) https?:// [^\s<>*`~\[\]]+ )
    | (?P<run> \*+ | _+ | ~+ )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_LINKABLE: Final = re.compile(r"(?:https?://|tg://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
_TAGS: Final = {"*1": "i", "*2": "b", "_1": "i", "_2": "b", "~2": "s"}


@dataclass(slots=True)
class _Run:
    """A run of `*`, `_` or `~` that may begin emphasis, end it, or be text."""

    sign: str
    size: int
    can_open: bool
    can_close: bool
    opening: list[str] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)

    @property
    def html(self) -> str:
        return "".join(self.closing) + self.sign * self.size + "".join(self.opening)


def inline(text: str, *, in_link: bool = False) -> str:
    """The text with its emphasis, code and links in Telegram's HTML; what is not markup stays as it is."""
    pieces = list(_pieces(text, in_link=in_link))
    _match([piece for piece in pieces if isinstance(piece, _Run)])
    return "".join(piece.html if isinstance(piece, _Run) else piece for piece in pieces)


def _pieces(text: str, *, in_link: bool) -> Iterator[str | _Run]:
    at = 0
    while token := _TOKEN.search(text, at):
        yield escape(text[at : token.start()], quote=False)
        at = token.end()
        if token["ticks"]:
            code, at = _code(text, token)
            yield code
        elif token["run"]:
            yield _run(text, token)
        else:
            yield _plain_token(token, in_link=in_link)
    yield escape(text[at:], quote=False)


def _plain_token(token: re.Match[str], *, in_link: bool) -> str:
    """An escaped character, an address or a link."""
    if token["label"] is not None:
        return _link(token, in_link=in_link)
    if (address := token["autolink"]) and not in_link:
        return _anchor(address, escape(address, quote=False))
    return escape(token["escaped"] or token["autolink"] or token["url"], quote=False)


def _link(token: re.Match[str], *, in_link: bool) -> str:
    """A link where Telegram can open the address, else label and address as text; a picture is a link to it."""
    label, address = token["label"], token["angled"] or token["bare"] or ""
    if in_link:
        return escape(label if token["image"] else token[0], quote=False)
    plain_address = escape(address, quote=False)
    if not label.strip():
        return _anchor(address, plain_address) if _LINKABLE.fullmatch(address) else plain_address
    shown = inline(label, in_link=True)
    if _LINKABLE.fullmatch(address):
        return _anchor(address, shown)
    return shown if address in {"", label} else f"{shown} ({plain_address})"


def _anchor(address: str, shown: str) -> str:
    return f'<a href="{escape(address)}">{shown}</a>'


def _code(text: str, ticks: re.Match[str]) -> tuple[str, int]:
    """The code span that begins here and where it ends; the backticks alone when nothing closes them."""
    size = len(ticks["ticks"])
    end = re.compile(rf"(?<!`)`{{{size}}}(?!`)").search(text, ticks.end())
    if end is None:
        return ticks["ticks"], ticks.end()
    code = text[ticks.end() : end.start()]
    if code.startswith(" ") and code.endswith(" ") and code.strip():
        code = code[1:-1]
    return f"<code>{escape(code, quote=False)}</code>", end.end()


def _run(text: str, token: re.Match[str]) -> str | _Run:
    """CommonMark's rule: emphasis begins before a word and ends after one; `_` does neither within a word."""
    run = token["run"]
    if run[0] == "~" and len(run) != 2:
        return run
    before = text[token.start() - 1] if token.start() else " "
    after = text[token.end()] if token.end() < len(text) else " "
    opens = not after.isspace() and (not _is_sign(after) or before.isspace() or _is_sign(before))
    closes = not before.isspace() and (not _is_sign(before) or after.isspace() or _is_sign(after))
    if run[0] == "_":
        opens, closes = opens and (not closes or _is_sign(before)), closes and (not opens or _is_sign(after))
    return _Run(run[0], len(run), opens, closes)


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def _match(runs: list[_Run]) -> None:
    """Pair beginnings with ends, the inner pairs first, so that tags never cross."""
    open_runs: list[_Run] = []
    for run in runs:
        while run.can_close and run.size and (place := _opener(open_runs, run)) is not None:
            del open_runs[place + 1 :]
            opener = open_runs[place]
            size = 2 if min(opener.size, run.size) >= 2 else 1
            tag = _TAGS[f"{run.sign}{size}"]
            opener.opening.insert(0, f"<{tag}>")
            run.closing.append(f"</{tag}>")
            opener.size -= size
            run.size -= size
            if not opener.size:
                open_runs.pop()
        if run.can_open and run.size:
            open_runs.append(run)


def _opener(open_runs: list[_Run], run: _Run) -> int | None:
    for place in range(len(open_runs) - 1, -1, -1):
        opener = open_runs[place]
        if opener.sign != run.sign:
            continue
        is_ambiguous = opener.can_close or run.can_open
        if is_ambiguous and (opener.size + run.size) % 3 == 0 and (opener.size % 3 or run.size % 3):
            continue  # CommonMark: in **a*b** the single sign is text
        return place
    return None
