"""BM25 search over gold.memory_chunks, with one in-memory index per agent."""

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.serve.lake_reader import ASCENDING, DESCENDING, LakeReader, PinnedLake, PinnedTable
from tinyagi.pipeline.tables.gold import MEMORY_CHUNKS
from tinyagi.pipeline.transform.text_chunks import terms_of
from tinyagi.store.archive import Hit, Recollection

K1: Final = 1.2
"""BM25's k1: how soon repetitions of a word stop adding to the score."""
B: Final = 0.75
"""BM25's b: how much length lowers the score of a chunk."""
MOST_TERMS: Final = 64
"""Terms of a query; the rest is ignored."""
CACHED_AGENTS: Final = 4
"""Agents whose index stays in memory; about 50 MB each with 50,000 chunks."""

_NOTHING: Final = "There is nothing to recall: the lake holds no histories yet. Run `tinyagi pipeline run`."


class RankedChunk(NamedTuple):
    """A matching chunk and the day of its file."""

    chunk: str
    day: date
    score: float


@dataclass(frozen=True, slots=True)
class AgentIndex:
    """An inverted index of one agent's chunks, newest first."""

    chunks: pa.Table
    words: pa.Array
    ends: pa.Array
    """The end of each word's postings; they start at the end of the word before."""
    postings: pa.Table
    """`row` of the chunk and `count`, word by word."""

    @classmethod
    def load(cls, table: PinnedTable, agent: str) -> "AgentIndex":
        """Read what ranking needs; texts stay on disk."""
        columns = ["chunk", "history_id", "created_at", "length", "date", "terms"]
        found = table.scan(table.files, pc.field("agent") == agent, columns)
        chunks = found.sort_by([("created_at", DESCENDING), ("history_id", DESCENDING), ("chunk", ASCENDING)])
        terms = chunks["terms"].combine_chunks()
        flat = terms.flatten()
        words = pc.struct_field(flat, "term").dictionary_encode()
        # `dictionary_encode` and `value_counts` both order words by first appearance.
        ends = pc.cumulative_sum(pc.struct_field(pc.value_counts(words.indices), "counts"))
        rows = pc.list_parent_indices(terms).cast("int32")
        postings = pa.table({"row": rows, "count": pc.struct_field(flat, "count").cast("double")})
        return cls(
            chunks.drop_columns(["terms"]), words.dictionary, ends, postings.take(pc.sort_indices(words.indices))
        )

    def best(self, terms: Sequence[str], limit: int) -> list[RankedChunk]:
        """The best chunk of each matching line, best first, ties by newest."""
        known = pc.index_in(pa.array(terms, pa.string()), value_set=self.words).drop_null().to_pylist()
        if not known:
            return []
        parts = pa.concat_tables([self._scores(word) for word in known])
        fitting = parts.group_by("row", use_threads=False).aggregate([("score", "sum")])
        scores = pa.table({"row": fitting["row"], "score": pc.round(fitting["score_sum"], 6)})
        # Take more than the limit: several chunks of one line count once.
        most = 2 * limit
        lines = self._best_lines(scores, most)
        while len(lines) < limit and most < scores.num_rows:
            most *= 4
            lines = self._best_lines(scores, most)
        return list(islice(lines.values(), limit))

    def _scores(self, word: int) -> pa.Table:
        """The score that a word adds to each chunk that contains it."""
        start = self.ends[word - 1].as_py() if word else 0
        postings = self.postings.slice(start, self.ends[word].as_py() - start)
        total, lengths, count = self.chunks.num_rows, self.chunks["length"], postings["count"]
        rarity = math.log1p((total - postings.num_rows + 0.5) / (postings.num_rows + 0.5))
        share = pc.divide(lengths.take(postings["row"]).cast("double"), pc.mean(lengths))
        denominator = pc.add(count, pc.add(K1 * (1 - B), pc.multiply(share, K1 * B)))
        return pa.table(
            {"row": postings["row"], "score": pc.divide(pc.multiply(count, rarity * (K1 + 1)), denominator)}
        )

    def _best_lines(self, scores: pa.Table, most: int) -> dict[int, RankedChunk]:
        """The lines of the `most` best chunks, by id, in order of score."""
        # Rows are unique, so this order is total.
        order = pc.select_k_unstable(scores, most, [("score", DESCENDING), ("row", ASCENDING)])
        ranked = scores.take(order)
        places = self.chunks.take(ranked["row"]).to_pylist()
        lines: dict[int, RankedChunk] = {}
        for place, score in zip(places, ranked["score"].to_pylist(), strict=True):
            lines.setdefault(place["history_id"], RankedChunk(place["chunk"], place["date"], score))
        return lines


class Searcher:
    """Searches one lake. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._reader = LakeReader(folder)
        self._lock = threading.Lock()
        self._version: int | None = None
        self._indexes: OrderedDict[str, AgentIndex] = OrderedDict()

    def search(self, agent: str, query: str, limit: int) -> Recollection:
        """Search this agent's chunks only; raise NotFound when nothing is archived yet."""
        terms = list(dict.fromkeys(terms_of(query)))[:MOST_TERMS]

        def read(lake: PinnedLake) -> Recollection | None:
            table = lake.table(MEMORY_CHUNKS.name)
            if table is None:
                return None
            found = self._index(table, agent).best(terms, limit) if terms else []
            return Recollection(_hits(table, agent, found), table.pin.through_id)

        recollection = self._reader.read(read)
        if recollection is None:
            raise NotFound(_NOTHING)
        return recollection

    def _index(self, table: PinnedTable, agent: str) -> AgentIndex:
        with self._lock:
            if self._version != table.pin.version:
                # Drop all indexes: erased texts must not live on in memory.
                self._indexes.clear()
                self._version = table.pin.version
            index = self._indexes.get(agent)
            if index is None:
                index = self._indexes[agent] = AgentIndex.load(table, agent)
            self._indexes.move_to_end(agent)
            while len(self._indexes) > CACHED_AGENTS:
                self._indexes.popitem(last=False)
            return index


def _hits(table: PinnedTable, agent: str, found: Sequence[RankedChunk]) -> tuple[Hit, ...]:
    days = {one.day for one in found}
    where = (pc.field("agent") == agent) & pc.field("chunk").isin([chunk.chunk for chunk in found])
    columns = ["chunk", "history_id", "role", "message_id", "conversation_id", "created_at", "text"]
    rows = table.scan([file for file in table.files if file.day in days], where, columns).to_pylist() if found else []
    by_chunk = {row.pop("chunk"): row for row in rows}
    return tuple(Hit(**by_chunk[one.chunk], score=one.score) for one in found)
