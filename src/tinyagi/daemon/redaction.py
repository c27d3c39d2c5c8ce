"""Masks secrets in text before it reaches a log: known values, and anything that looks like a secret."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

from tinyagi.settings.home import Home
from tinyagi.settings.json_tree import JsonSyntaxError, decode
from tinyagi.settings.secrets import MASK, values

_MIN_CHARS: Final = 6
"""A shorter secret would mask everyday words."""
_CUT: Final = "…"
"""Marks the place where a text was shortened."""

_SHAPES: Final = re.compile(
    r"(?P<header>\b(?:proxy-)?authorization\b[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"',;]{3,}"
    r"|(?P<scheme>\bbearer\s+)[\w.~+/=-]{12,}"
    r"|(?P<query>[?&](?:[a-z_]*token|[a-z_]*key|secret|password)=)[^&\s\"'#]+"
    r"|(?P<address>://[^\s/:@\"']+:)[^\s/@\"']+(?=@)"
    r"|(?P<agent>\bagent\.[a-z0-9][a-z0-9_-]{0,63}\.)[0-9a-f]{64}"
    r"|(?P<key>\b(?:sk|xox[abp]|gh[opsu])[-_])[\w-]{16,}",
    re.IGNORECASE,
)
"""The forms of unknown secrets: a program may print one that is not in the settings."""


class Redactor:
    """Replaces secrets by a mask: those of the environment, and those of settings.json, read again when it changes."""

    def __init__(self, home: Home, environment: Mapping[str, str]) -> None:
        self._file = home.settings_file
        self._secrets = set(values({}, environment))
        self._stamp: _Stamp | None = None
        self._compile()

    def __call__(self, text: str) -> str:
        """Mask the text. Checks settings.json first, so that a new key is masked from the first line on."""
        self._refresh()
        return self._mask(text)

    def _mask(self, text: str) -> str:
        text = self._known.sub(MASK, text) if self._known is not None else text
        if _CUT in text:
            text = self._mask_cut_secrets(text)
        return _SHAPES.sub(lambda found: f"{next(filter(None, found.groups()))}{MASK}", text)

    def _mask_cut_secrets(self, text: str) -> str:
        """Mask the start of a secret before each cut: a shortened text may end within one."""
        pieces = text.split(_CUT)
        return _CUT.join([*map(self._mask_cut_secret, pieces[:-1]), pieces[-1]])

    def _mask_cut_secret(self, piece: str) -> str:
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
        except (OSError, JsonSyntaxError):
            # Keep masking the secrets known so far.
            return
        self._stamp = stamp
        known = len(self._secrets)
        self._secrets.update(values(raw))
        if len(self._secrets) > known:
            self._compile()

    def _compile(self) -> None:
        # Longest first: an alternation takes the first match, and one secret may be a prefix of another.
        self._forms = sorted({form for secret in self._secrets for form in _forms(secret)}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, self._forms))) if self._forms else None
        # A lookahead, so that matches may overlap.
        heads = "|".join(sorted({re.escape(form[:_MIN_CHARS]) for form in self._forms}))
        self._heads = re.compile(f"(?={heads})") if heads else None


class _Stamp(NamedTuple):
    changed_ns: int
    size: int
    inode: int


def _forms(secret: str) -> Iterator[str]:
    """The secret as it may appear in text: plain, on one line, quoted for Python or JSON, or encoded in a URL."""
    plain = {secret, secret.strip(), " ".join(secret.split()), *(line.strip() for line in secret.splitlines())}
    quoted = {*plain, *_encoded(plain)}
    # A quoted text may be quoted once more.
    yield from (form for form in {*quoted, *_encoded(quoted)} if len(form) >= _MIN_CHARS)


def _encoded(texts: Iterable[str]) -> Iterator[str]:
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
