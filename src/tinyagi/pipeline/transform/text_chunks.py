"""Cuts a text into overlapping chunks with their terms. No Spark: `recall` splits queries with the same `terms_of`.

Each line is cut separately, so the chunks of a day depend on the lines of that day only.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Characters that count as one word each: their scripts put no spaces between words."""
SHORTEST_TERM: Final = 2
LONGEST_TERM: Final = 64
"""A longer one is a key or a hash, not a word."""
STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """an and are as at be but by can did do does for from had has have he her his how if in into is it its me my no
        not of on or our she so than that the their them then there these they this to up was we were what when where
        which who will with would you your""",
    )
)
"""Common English words. In other languages BM25 gives frequent words little weight."""

_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]")

SIZE: Final = 120
"""Words in a chunk."""
OVERLAP: Final = 30
"""Words that a chunk repeats from the one before it, so that a match is not split at an edge."""
MOST_CHARACTERS: Final = 4_000
"""Of the text that is stored; its terms are complete."""

_STEP: Final = SIZE - OVERLAP
# Splits before a word, so that the joined pieces are the text again.
_BREAK: Final = re.compile(rf"(?<=\s)(?=\S)|(?<=[{IDEOGRAPHS}])(?=[{IDEOGRAPHS}])")


class Chunk(NamedTuple):
    line: int
    """The index of its line in the batch."""
    number: int
    text: str
    terms: list[tuple[str, int]]


def chunks_of(line: int, text: str) -> Iterator[Chunk]:
    """The chunks of one line that have terms."""
    for number, piece in enumerate(_pieces(text.strip()), 1):
        terms = sorted(Counter(terms_of(piece)).items())
        if terms:
            yield Chunk(line, number, piece[:MOST_CHARACTERS], terms)


def _pieces(text: str) -> list[str]:
    """Overlapping runs of words; the last is longer than the overlap."""
    # Fast path: most lines are short, and finding the breaks is most of the work.
    if len(text.split()) <= SIZE and (text.isascii() or not _IDEOGRAPH.search(text)):
        return [text]
    words = _BREAK.split(text)
    return ["".join(words[start : start + SIZE]).strip() for start in range(0, max(len(words) - OVERLAP, 1), _STEP)]


def terms_of(text: str) -> list[str]:
    """The terms of a text in order: numbers included, stop words left out."""
    return [
        word
        for word in text.lower().translate(_SPACED).split()
        if (SHORTEST_TERM <= len(word) <= LONGEST_TERM and word not in STOP_WORDS)
        or (len(word) == 1 and _IDEOGRAPH.match(word))
    ]


class _Spaced(dict[int, str]):
    """For `str.translate`: keeps letters, marks and digits, puts spaces around ideographs, blanks everything else."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if _IDEOGRAPH.match(character):
            spaced = f" {character} "
        else:
            spaced = character if unicodedata.category(character)[0] in "LMN" else " "
        self[code] = spaced
        return spaced


_SPACED: Final = _Spaced()
