"""Telegram's own reading of its HTML: strict about tags, so that a test sees the markup that Telegram would refuse."""

import re
from html import unescape
from typing import Final

_TOKEN: Final = re.compile(r"<(?P<end>/?)(?P<tag>[a-z-]+)(?P<attributes>[^<>]*)>")
_ATTRIBUTES: Final = {
    "a": re.compile(r' href="[^"<>]+"'),
    "code": re.compile(r'(?: class="language-[\w+#.-]+")?', re.ASCII),
}
_PLAIN: Final = frozenset({"b", "i", "s", "u", "pre", "blockquote"})
_REFERENCE: Final = re.compile(r"&(?!(?:lt|gt|amp|quot|#\d+);)")
_ALONE: Final = frozenset({"a", "blockquote", "code", "pre"})
"""These are not nested in themselves."""


class MarkupRefused(Exception):
    """Telegram answers: can't parse entities."""


def visible(html: str) -> str:
    """The text that people see; raise MarkupRefused for what Telegram does not take."""
    shown: list[str] = []
    stack: list[str] = []
    at = 0
    for token in _TOKEN.finditer(html):
        shown.append(_text(html[at : token.start()]))
        at = token.end()
        tag = token["tag"]
        if token["end"]:
            if not stack or stack.pop() != tag or token["attributes"]:
                raise MarkupRefused(f"unmatched end tag {tag}")
        else:
            _check(tag, token["attributes"], stack)
            stack.append(tag)
    shown.append(_text(html[at:]))
    if stack:
        raise MarkupRefused(f"can't find end tag of {stack[-1]}")
    return "".join(shown)


def _check(tag: str, attributes: str, stack: list[str]) -> None:
    if tag in _PLAIN:
        is_known = not attributes
    else:
        is_known = tag in _ATTRIBUTES and _ATTRIBUTES[tag].fullmatch(attributes) is not None
    if not is_known:
        raise MarkupRefused(f"unsupported start tag {tag}{attributes}")
    if tag in _ALONE and tag in stack:
        raise MarkupRefused(f"{tag} in {tag}")
    if "code" in stack or ("pre" in stack and tag != "code"):
        raise MarkupRefused(f"{tag} in code")


def _text(html: str) -> str:
    if "<" in html or ">" in html or _REFERENCE.search(html):
        raise MarkupRefused("a sign that is not escaped")
    return unescape(html)
