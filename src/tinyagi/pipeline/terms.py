"""What a search looks for: the words of a text, the same in gold.memory_chunks and in a question."""

import re
import unicodedata
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
    """The terms of a text in their order: numbers too, stop words not."""
    return [
        word
        for word in text.lower().translate(_SPACED).split()
        if (SHORTEST <= len(word) <= LONGEST and word not in STOP_WORDS) or (len(word) == 1 and _IDEOGRAPH.match(word))
    ]


class _Spaced(dict[int, str]):
    """For `str.translate`: what belongs to a word stays, ideographs stand apart, all else is a blank."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if _IDEOGRAPH.match(character):
            spaced = f" {character} "
        else:
            spaced = character if unicodedata.category(character)[0] in "LMN" else " "
        self[code] = spaced
        return spaced


_SPACED: Final = _Spaced()
