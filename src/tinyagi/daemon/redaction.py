"""Takes secrets out of texts before they reach a log: by their values, and by the shapes that secrets have."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

from tinyagi.settings.home import Home
from tinyagi.settings.notation import Unreadable, decode
from tinyagi.settings.secrets import MASK, values

_SHORTEST: Final = 6
"""Characters: whoever takes shorter texts out takes everyday words out."""
_CUT: Final = "…"

_SHAPES: Final = re.compile(
    r"(?P<header>\b(?:proxy-)?authorization\b[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',;]{3,}"
    r"|(?P<scheme>\bbearer\s+)[\w.~+/=-]{12,}"
    r"|(?P<query>[?&](?:[a-z_]*token|[a-z_]*key|secret|password)=)[^&\s\"'#]+"
    r"|(?P<address>://[^\s/:@\"']+:)[^\s/@\"']+(?=@)"
    r"|(?P<key>\b(?:sk|xox[abp]|gh[opsu])[-_])[\w-]{16,}",
    re.IGNORECASE,
)
"""Secrets that nobody named: a program may print one that stands in no setting."""


class Redactor:
    """Replaces secrets by a mask. Knows the environment's at once, and the settings' as often as their file changes."""

    def __init__(self, home: Home, environment: Mapping[str, str]) -> None:
        self._file = home.settings_file
        self._secrets = set(values({}, environment))
        self._stamp: _Stamp | None = None
        self._compile()

    def __call__(self, text: str) -> str:
        """The text without secrets. Looks at the settings' file first: a new key is hidden from its first line on."""
        self._refresh()
        return self._mask(text)

    def _mask(self, text: str) -> str:
        text = self._known.sub(MASK, text) if self._known is not None else text
        if _CUT in text:
            text = self._without_beginnings(text)
        return _SHAPES.sub(lambda found: f"{next(filter(None, found.groups()))}{MASK}", text)

    def _without_beginnings(self, text: str) -> str:
        """A text that was cut may end within a secret."""
        pieces = text.split(_CUT)
        return _CUT.join([*map(self._without_beginning, pieces[:-1]), pieces[-1]])

    def _without_beginning(self, piece: str) -> str:
        if self._heads is not None:
            for head in self._heads.finditer(piece, max(0, len(piece) - len(self._forms[0]))):
                rest = piece[head.start() :]
                if any(form.startswith(rest) for form in self._forms):
                    return piece[: head.start()] + MASK
        return piece

    def _refresh(self) -> None:
        try:
            found = self._file.stat()
            stamp = _Stamp(found.st_ctime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            raw = decode(self._file.read_bytes())
        except (OSError, Unreadable):
            # What was secret a moment ago stays so.
            return
        self._stamp = stamp
        known = len(self._secrets)
        self._secrets.update(values(raw))
        if len(self._secrets) > known:
            self._compile()

    def _compile(self) -> None:
        # The longest first: an alternation takes what fits first, and one secret may begin like another.
        self._forms = sorted({form for secret in self._secrets for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, self._forms))) if self._forms else None
        # Looks ahead, so that one beginning may lie within another.
        heads = "|".join(sorted({re.escape(form[:_SHORTEST]) for form in self._forms}))
        self._heads = re.compile(f"(?={heads})") if heads else None


class _Stamp(NamedTuple):
    changed_ns: int
    size: int
    inode: int


def _forms(secret: str) -> Iterator[str]:
    """The secret as it may stand in a text: as it is, on one line, quoted for Python or JSON, or within an address."""
    plain = {secret, secret.strip(), " ".join(secret.split()), *(line.strip() for line in secret.splitlines())}
    quoted = {*plain, *_each(plain)}
    # A message that quotes a text may be quoted itself.
    yield from (form for form in {*quoted, *_each(quoted)} if len(form) >= _SHORTEST)


def _each(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        for encoded in (
            quote(text, safe="", errors="replace"),
            quote(text, errors="replace"),
            quote_plus(text, errors="replace"),
        ):
            yield encoded
            yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)
