"""What a search looks for: the words of a text, the same in Spark's columns and in a question."""

import re
import unicodedata
from itertools import groupby
from typing import Final

IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Characters that are a word each: their scripts put no blanks between words."""
SHORTEST: Final = 2
LONGEST: Final = 64
"""Beyond it stands a key or a hash, not a word."""
STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """an and are as at be but by can did do does for from had has have he her his how if in into is it its me my no
        not of on or our she so than that the their them then there these they this to up was we were what when where
        which who will with would you your""",
    )
)
"""English words that stand in every text; others lose their weight by themselves, because they are frequent."""

_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]")


def terms_of(text: str) -> list[str]:
    """The terms of a text in their order, as gold.memory_chunks has them: numbers too, stop words not."""
    found: list[str] = []
    for kind, characters in groupby(text.lower(), _kind):
        if kind == "ideograph":
            found += characters
        elif kind == "word":
            found.append("".join(characters))
    return [term for term in found if _is_term(term)]


def _is_term(word: str) -> bool:
    if len(word) == 1:
        return _kind(word) == "ideograph"
    return SHORTEST <= len(word) <= LONGEST and word not in STOP_WORDS


def _kind(character: str) -> str:
    if _IDEOGRAPH.match(character):
        return "ideograph"
    return "word" if unicodedata.category(character)[0] in "LMN" else ""
