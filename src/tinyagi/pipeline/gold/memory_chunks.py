"""gold.memory_chunks: what agents were asked and have answered, in pieces that a search can weigh.

Every line is cut by itself, so the chunks of a day follow from the lines of that day alone.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.terms import IDEOGRAPHS, LONGEST, SHORTEST, STOP_WORDS

SIZE: Final = 120
"""Words in a chunk."""
OVERLAP: Final = 30
"""Words that a chunk repeats of the one before it: what is found should not stand on an edge."""
MOST_CHARACTERS: Final = 4_000
"""Of the text that is shown; its words are all there."""

_STEP: Final = SIZE - OVERLAP
_BLANKS: Final = " \t\r\n"
# Keeps the blanks with the word before them, so that the pieces joined are the text again.
_BREAK: Final = rf"(?<=\s)(?=\S)|(?<=[{IDEOGRAPHS}])(?=[{IDEOGRAPHS}])"
_WORD: Final = rf"[{IDEOGRAPHS}]|[\p{{L}}\p{{M}}\p{{N}}&&[^{IDEOGRAPHS}]]+"


def memory_chunks(lines: DataFrame) -> DataFrame:
    """Of rows of silver.agent_messages; what was erased, and what has no words, leaves nothing."""
    pieces = lines.where(F.col("content").isNotNull()).select(
        F.col("agent_id").alias("agent"),
        F.col("id").alias("history_id"),
        "role",
        "message_id",
        "conversation_id",
        "created_at",
        "date",
        F.posexplode(_let(F.split(F.trim("content", F.lit(_BLANKS)), _BREAK), _pieces)).alias("number", "piece"),
    )
    found = pieces.withColumn("terms", _let(F.array_sort(_terms(F.col("piece"))), _counted))
    return found.where(F.size("terms") > 0).select(
        "agent",
        F.concat_ws(".", "history_id", F.col("number") + 1).alias("chunk"),
        "history_id",
        "role",
        "message_id",
        "conversation_id",
        "created_at",
        F.substring("piece", 1, MOST_CHARACTERS).alias("text"),
        "terms",
        F.aggregate("terms", F.lit(0), lambda total, term: total + term["count"]).alias("length"),
        "date",
    )


def _pieces(words: Column) -> Column:
    """Overlapping runs of words; the last one is not shorter than the overlap."""
    further = F.ceil(F.greatest(F.size(words) - SIZE, F.lit(0)) / _STEP).cast("int")
    return F.transform(
        F.sequence(F.lit(0), further),
        lambda number: F.trim(F.array_join(F.slice(words, number * _STEP + 1, SIZE), ""), F.lit(_BLANKS)),
    )


def _terms(text: Column) -> Column:
    """The counterpart of `terms_of`."""
    words = F.regexp_extract_all(F.lower(text), F.lit(_WORD), F.lit(0))
    return F.filter(
        words,
        lambda word: (
            word.rlike(f"^[{IDEOGRAPHS}]$")
            | (F.length(word).between(SHORTEST, LONGEST) & ~word.isin(*sorted(STOP_WORDS)))
        ),
    )


def _counted(words: Column) -> Column:
    """Each word of a sorted array once, with its number: it goes from where it begins to where the next one does."""
    begins = F.array_compact(
        F.transform(words, lambda word, place: F.when(~word.eqNullSafe(F.get(words, place - 1)), place))
    )
    return _let(
        begins,
        lambda places: F.transform(
            places,
            lambda place, number: F.struct(
                F.get(words, place).alias("term"),
                (F.coalesce(F.get(places, number + 1), F.size(words)) - place).alias("count"),
            ),
        ),
    )


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with the value worked out once: Spark would do it again for every element of a lambda in it."""
    return F.get(F.transform(F.array(value), use), F.lit(0))
