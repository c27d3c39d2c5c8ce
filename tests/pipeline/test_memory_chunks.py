import datetime as dt
import random
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.gold import texts_to_cut
from tinyagi.pipeline.transform.memory_chunks import cut_lines
from tinyagi.pipeline.transform.text_chunks import MOST_CHARACTERS, OVERLAP, SIZE, STOP_WORDS, terms_of

TODAY = dt.date(2026, 1, 5)
ODD = "aZäßÉσΣςIİıẞ09٣½²नमस्तेกำ日本ひラ한_-'’@#.\u200d\u0301 \n\t\u00a0🙂"


def chunks(spark: SparkSession, *texts: str | None) -> list[dict[str, Any]]:
    """The chunks of one line per text; the ids count from 1."""
    lines = [
        {"id": number, "agent_id": "coder", "role": "user", "message_id": "m", "content": text, "date": TODAY}
        for number, text in enumerate(texts, 1)
    ]
    schema = spark_schema(find_table("silver.agent_messages"))
    rows = [{column: line.get(column) for column in schema.names} for line in lines]
    lines_to_cut = texts_to_cut(spark.createDataFrame(rows, schema))
    found = lines_to_cut.mapInArrow(cut_lines, spark_schema(find_table("gold.memory_chunks")))
    return [row.asDict(recursive=True) for row in found.collect()]


def counted(chunk: dict[str, Any]) -> dict[str, int]:
    return {term["term"]: term["count"] for term in chunk["terms"]}


def test_a_short_line_is_one_chunk_with_its_words_counted(spark: SparkSession) -> None:
    (chunk,) = chunks(spark, "  The invoice of Ada:\n\tinvoice 4711, and the INVOICE of Bob.\n")

    assert (chunk["agent"], chunk["chunk"], chunk["history_id"], chunk["date"]) == ("coder", "1.1", 1, TODAY)
    assert chunk["text"] == "The invoice of Ada:\n\tinvoice 4711, and the INVOICE of Bob."
    assert chunk["terms"] == [
        {"term": "4711", "count": 1},
        {"term": "ada", "count": 1},
        {"term": "bob", "count": 1},
        {"term": "invoice", "count": 3},
    ]
    assert chunk["length"] == 6


def test_long_lines_are_cut_into_overlapping_chunks(spark: SparkSession) -> None:
    def line(words: int) -> str:
        return " ".join(f"w{number}" for number in range(words))

    found = chunks(spark, line(SIZE), line(SIZE + 1), line(400))

    pieces = {chunk["chunk"]: chunk["text"].split() for chunk in found}
    assert {name: (words[0], words[-1]) for name, words in pieces.items()} == {
        "1.1": ("w0", "w119"),
        "2.1": ("w0", "w119"),
        "2.2": ("w90", "w120"),
        "3.1": ("w0", "w119"),
        "3.2": ("w90", "w209"),
        "3.3": ("w180", "w299"),
        "3.4": ("w270", "w389"),
        "3.5": ("w360", "w399"),
    }
    assert len(set(pieces["3.1"]) & set(pieces["3.2"])) == OVERLAP


def test_lines_without_words_give_no_chunk(spark: SparkSession) -> None:
    assert chunks(spark, None, "", " \n ", "…!", "the of and", "a") == []


def test_scripts_without_spaces_are_cut_and_endless_words_truncated(spark: SparkSession) -> None:
    japanese, endless = "明日の会議" * 40, "x" * 9_000 + " word"

    *cut, last = sorted(chunks(spark, japanese, endless), key=lambda chunk: chunk["chunk"])

    assert [chunk["length"] for chunk in cut] == [SIZE, 200 - (SIZE - OVERLAP)]
    assert counted(cut[0]) == dict.fromkeys("明日の会議", SIZE // 5)
    assert (counted(last), len(last["text"])) == ({"word": 1}, MOST_CHARACTERS)


def test_a_query_has_the_same_terms_as_a_line(spark: SparkSession) -> None:
    dice = random.Random(7)
    words = [*sorted(STOP_WORDS), *ODD, *ODD, "x_y", "don't", "A1", "z" * 64, "z" * 65]
    texts = ["".join(dice.choices(words, k=30)) for _ in range(50)]
    texts += [" ".join(dice.choices(words, k=30)) for _ in range(50)]

    found = {chunk["history_id"]: counted(chunk) for chunk in chunks(spark, *texts)}

    assert found == {number: terms for number, text in enumerate(texts, 1) if (terms := Counter(terms_of(text)))}
