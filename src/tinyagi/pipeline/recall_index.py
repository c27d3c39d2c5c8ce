"""BM25 over gold.memory_chunks: the words of one agent's past in arrays, and how well its chunks fit a question."""

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
from tinyagi.pipeline.archive_tables import ASCENDING, DESCENDING, Lakes, PinnedTable, Snapshot
from tinyagi.pipeline.tables.gold import MEMORY_CHUNKS
from tinyagi.pipeline.terms import terms_of
from tinyagi.store.recall import Hit, Recollection

K1: Final = 1.2
"""How soon a word that is repeated within a chunk stops adding to its score."""
B: Final = 0.75
"""How much a long chunk has to make up for its length."""
MOST_TERMS: Final = 64
"""Of a question; what follows is not looked for."""
KEPT: Final = 4
"""Agents whose words stay in memory; about 50 MB each with 50,000 chunks."""

_NOTHING: Final = "There is nothing to recall: the lake holds no histories yet. Run `tinyagi pipeline run`."


class Found(NamedTuple):
    """A chunk that fits; where its text lies."""

    chunk: str
    day: date
    score: float


@dataclass(frozen=True, slots=True)
class Index:
    """The chunks of one agent, newest first, and for every word the chunks that have it."""

    chunks: pa.Table
    words: pa.Array
    ends: pa.Array
    """Where the postings of each word end; they begin where those of the word before end."""
    postings: pa.Table
    """`row` of the chunk and `count`, word by word."""

    @classmethod
    def load(cls, table: PinnedTable, agent: str) -> "Index":
        """Read what ranking needs; texts stay where they are."""
        columns = ["chunk", "history_id", "created_at", "length", "date", "terms"]
        found = table.scan(table.files, pc.field("agent") == agent, columns)
        chunks = found.sort_by([("created_at", DESCENDING), ("history_id", DESCENDING), ("chunk", ASCENDING)])
        terms = chunks["terms"].combine_chunks()
        flat = terms.flatten()
        words = pc.struct_field(flat, "term").dictionary_encode()
        # Words have their numbers in the order in which they come first, and are counted in the same order.
        ends = pc.cumulative_sum(pc.struct_field(pc.value_counts(words.indices), "counts"))
        rows = pc.list_parent_indices(terms).cast("int32")
        postings = pa.table({"row": rows, "count": pc.struct_field(flat, "count").cast("double")})
        return cls(
            chunks.drop_columns(["terms"]), words.dictionary, ends, postings.take(pc.sort_indices(words.indices))
        )

    def best(self, terms: Sequence[str], limit: int) -> list[Found]:
        """The best chunk of each line that has one of the terms, best line first, of equals the newest."""
        known = pc.index_in(pa.array(terms, pa.string()), value_set=self.words).drop_null().to_pylist()
        if not known:
            return []
        parts = pa.concat_tables([self._scores(word) for word in known])
        fitting = parts.group_by("row", use_threads=False).aggregate([("score", "sum")])
        scores = pa.table({"row": fitting["row"], "score": pc.round(fitting["score_sum"], 6)})
        # More than are wanted: several chunks of one line count once.
        most = 2 * limit
        lines = self._best_lines(scores, most)
        while len(lines) < limit and most < scores.num_rows:
            most *= 4
            lines = self._best_lines(scores, most)
        return list(islice(lines.values(), limit))

    def _scores(self, word: int) -> pa.Table:
        """What a word adds to each chunk that has it."""
        begin = self.ends[word - 1].as_py() if word else 0
        having = self.postings.slice(begin, self.ends[word].as_py() - begin)
        total, lengths, count = self.chunks.num_rows, self.chunks["length"], having["count"]
        rarity = math.log1p((total - having.num_rows + 0.5) / (having.num_rows + 0.5))
        share = pc.divide(lengths.take(having["row"]).cast("double"), pc.mean(lengths))
        damped = pc.add(count, pc.add(K1 * (1 - B), pc.multiply(share, K1 * B)))
        return pa.table({"row": having["row"], "score": pc.divide(pc.multiply(count, rarity * (K1 + 1)), damped)})

    def _best_lines(self, scores: pa.Table, most: int) -> dict[int, Found]:
        """The lines of so many best chunks, by their id, in this order."""
        # Rows are unique, so these two leave no choice.
        order = pc.select_k_unstable(scores, most, [("score", DESCENDING), ("row", ASCENDING)])
        ranked = scores.take(order)
        places = self.chunks.take(ranked["row"]).to_pylist()
        lines: dict[int, Found] = {}
        for place, score in zip(places, ranked["score"].to_pylist(), strict=True):
            lines.setdefault(place["history_id"], Found(place["chunk"], place["date"], score))
        return lines


class Searcher:
    """Searches in one lake. May be used by several threads."""

    def __init__(self, folder: Path) -> None:
        self._lakes = Lakes(folder)
        self._lock = threading.Lock()
        self._version: int | None = None
        self._indexes: OrderedDict[str, Index] = OrderedDict()

    def search(self, agent: str, query: str, limit: int) -> Recollection:
        """Chunks of this agent and of no other; raise NotFound when nothing is archived yet."""
        terms = list(dict.fromkeys(terms_of(query)))[:MOST_TERMS]

        def read(snapshot: Snapshot) -> Recollection | None:
            table = snapshot.table(MEMORY_CHUNKS.name)
            if table is None:
                return None
            found = self._index(table, agent).best(terms, limit) if terms else []
            return Recollection(_hits(table, agent, found), table.pin.through_id)

        recollection = self._lakes.read(read)
        if recollection is None:
            raise NotFound(_NOTHING)
        return recollection

    def _index(self, table: PinnedTable, agent: str) -> Index:
        with self._lock:
            if self._version != table.pin.version:
                # All of them: what was erased from the lake should not live on here.
                self._indexes.clear()
                self._version = table.pin.version
            index = self._indexes.get(agent)
            if index is None:
                index = self._indexes[agent] = Index.load(table, agent)
            self._indexes.move_to_end(agent)
            while len(self._indexes) > KEPT:
                self._indexes.popitem(last=False)
            return index


def _hits(table: PinnedTable, agent: str, found: Sequence[Found]) -> tuple[Hit, ...]:
    days = {one.day for one in found}
    where = (pc.field("agent") == agent) & pc.field("chunk").isin([one.chunk for one in found])
    columns = ["chunk", "history_id", "role", "message_id", "conversation_id", "created_at", "text"]
    rows = table.scan([file for file in table.files if file.day in days], where, columns).to_pylist() if found else []
    by_chunk = {row.pop("chunk"): row for row in rows}
    return tuple(Hit(**by_chunk[one.chunk], score=one.score) for one in found)
