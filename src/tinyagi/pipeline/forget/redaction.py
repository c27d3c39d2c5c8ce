"""Events of erased people without their words: what every event goes through on its way into the lake."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from tinyagi.store.erasing import Redaction, redact_event

_ASKED: Final = ("id", "type", "message_id", "conversation_id", "agent", "payload")


def redact(events: DataFrame, redactions: Sequence[Redaction]) -> DataFrame:
    """The events, with the payloads of those that are covered by an erasure redacted; the frame itself without any.

    The payloads are handled in Python, by the very function that redacts the hot log: what is JSON in JSON, of many
    shapes, is no work for columns, and it happens once in the life of an event.
    """
    if not redactions:
        return events

    def erase(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _ASKED)
            payloads = [redact_event(redactions, *row) for row in zip(*columns, strict=True)]
            place = batch.schema.get_field_index("payload")
            yield batch.set_column(place, batch.schema.field(place), pa.array(payloads, pa.string()))

    return events.mapInArrow(erase, events.schema)
