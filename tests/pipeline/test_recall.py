import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.lakes import write_lake
from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.pipeline.serve.archive import LakeRecall
from tinyagi.pipeline.serve.recall import CACHED_AGENTS, Searcher
from tinyagi.pipeline.transform.text_chunks import terms_of

CODER = AgentId("coder")
MONDAY = dt.date(2026, 1, 5)


def line(number: int, text: str, agent: str = "coder", piece: int = 1, day: int = 0) -> dict[str, Any]:
    counts = Counter(terms_of(text))
    return {
        "agent": agent,
        "chunk": f"{number}.{piece}",
        "history_id": number,
        "role": "user",
        "message_id": f"m{number}",
        "conversation_id": f"c{number}",
        "created_at": 1_000 * number,
        "text": text,
        "terms": [{"term": term, "count": count} for term, count in sorted(counts.items())],
        "length": counts.total(),
        "date": MONDAY + dt.timedelta(days=day),
    }


def make_recall(folder: Path, *lines: Mapping[str, Any], through_id: int = 7) -> LakeRecall:
    write_lake(folder, {"gold.memory_chunks": lines}, through_id=through_id)
    return LakeRecall(folder)


async def found(recall: LakeRecall, query: str, agent: AgentId = CODER, limit: int = 10) -> list[int]:
    return [hit.history_id for hit in (await recall.search(agent, query, limit=limit)).hits]


async def test_a_hit_has_text_time_and_conversation(tmp_path: Path) -> None:
    recall = make_recall(tmp_path, line(1, "Ada wants short answers"), line(2, "the deploy of Friday failed", day=1))

    recollection = await recall.search(CODER, "What does Ada want in answers?", limit=10)

    (hit,) = recollection.hits
    assert (hit.history_id, hit.role, hit.message_id, hit.conversation_id) == (1, "user", "m1", "c1")
    assert (hit.created_at, hit.text) == (1_000, "Ada wants short answers")
    assert recollection.through_id == 7


async def test_the_score_is_that_of_bm25(tmp_path: Path) -> None:
    recall = make_recall(
        tmp_path, line(1, "deploy deploy failed badly"), line(2, "deploy went well"), line(3, "nothing new")
    )

    (first, second) = (await recall.search(CODER, "deploy failed")).hits

    def part(count: int, holding: int, length: int) -> float:
        rarity = math.log(1 + (3 - holding + 0.5) / (holding + 0.5))
        return rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 3))

    assert first.history_id == 1
    assert first.score == pytest.approx(part(2, 2, 4) + part(1, 1, 4), abs=1e-6)
    assert second.score == pytest.approx(part(1, 2, 3), abs=1e-6)


async def test_rare_words_and_short_lines_weigh_more(tmp_path: Path) -> None:
    filler = "report status report numbers meeting notes draft review summary plan"
    recall = make_recall(
        tmp_path,
        line(1, f"report {filler}"),
        line(2, f"zeppelin {filler}"),
        line(3, "zeppelin"),
        line(4, "report of today"),
    )

    assert await found(recall, "the zeppelin report") == [3, 2, 4, 1]


async def test_an_agent_finds_only_its_own_history(tmp_path: Path) -> None:
    recall = make_recall(tmp_path, line(1, "secret plan"), line(2, "secret plan", agent="writer"))

    assert await found(recall, "secret") == [1]
    assert await found(recall, "secret", AgentId("writer")) == [2]
    assert await found(recall, "secret", AgentId("nobody")) == []


async def test_a_hit_is_the_best_chunk_of_its_line_and_ties_are_newest_first(tmp_path: Path) -> None:
    recall = make_recall(
        tmp_path,
        line(1, "budget of spring and other things", piece=1),
        line(1, "budget budget", piece=2),
        line(2, "lunch at noon"),
        line(3, "lunch at noon", day=2),
    )

    (hit,) = (await recall.search(CODER, "budget")).hits
    assert hit.text == "budget budget"
    assert await found(recall, "lunch") == [3, 2]
    assert await found(recall, "lunch budget", limit=2) == [1, 3]


async def test_a_line_with_many_matching_chunks_is_one_hit(tmp_path: Path) -> None:
    pieces = [line(1, "lunch lunch lunch", piece=number) for number in range(1, 40)]
    recall = make_recall(
        tmp_path, *pieces, line(2, "lunch at noon, or not"), line(3, "lunch at noon or at one or at two")
    )

    assert await found(recall, "lunch", limit=2) == [1, 2]
    assert await found(recall, "lunch", limit=5) == [1, 2, 3]


async def test_a_query_without_words_finds_nothing(tmp_path: Path) -> None:
    recall = make_recall(tmp_path, line(1, "hello"))

    assert await found(recall, "the … of") == []
    assert await found(recall, "unheard") == []


async def test_a_new_version_of_the_lake_is_seen_at_once(tmp_path: Path) -> None:
    recall = make_recall(tmp_path, line(1, "first"))
    assert await found(recall, "first second") == [1]

    make_recall(tmp_path, line(2, "second"), through_id=9)

    assert await found(recall, "first second") == [2]
    assert (await recall.search(CODER, "second")).through_id == 9


def test_only_a_few_agents_and_one_version_stay_in_memory(tmp_path: Path) -> None:
    agents = [f"agent{number}" for number in range(CACHED_AGENTS + 3)]
    make_recall(tmp_path, *(line(number, "hello", agent) for number, agent in enumerate(agents, 1)))
    searcher = Searcher(tmp_path)

    for agent in agents:
        assert len(searcher.search(agent, "hello", 10).hits) == 1
    assert list(searcher._indexes) == agents[-CACHED_AGENTS:]

    make_recall(tmp_path, line(1, "hello"))
    searcher.search("coder", "hello", 10)
    assert list(searcher._indexes) == ["coder"]


async def test_a_missing_lake_or_history_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no lake yet"):
        await LakeRecall(tmp_path / "none").search(CODER, "hello")
    write_lake(tmp_path, {"gold.alerts": []})
    with pytest.raises(NotFound, match="no histories yet"):
        await LakeRecall(tmp_path).search(CODER, "hello")


async def test_an_empty_table_gives_no_hits(tmp_path: Path) -> None:
    assert await found(make_recall(tmp_path), "hello") == []
