"""Segments to Arrow batches, without the readings that the plan leaves out. No Spark in here.

A damaged page is an error with the segment's name: rows that nobody can read must not vanish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_ingest.planning.seen import Life
from spark_ingest.segment import schema
from spark_ingest.sequences import BLOCK_BITS, Encoded

BATCH_ROWS = 65_536


class DamagedSegmentError(Exception):
    """Its footer is whole and its rows are not."""


def batches_of(
    path: Path, columns: Sequence[str], left_out: Mapping[Life, Encoded]
) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es with just these columns, in this order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    needed = list(dict.fromkeys([*columns, *(("gw", "epoch", "seq") if left_out else ())]))
    known = schema()
    wanted = pa.schema([known.field(name) for name in columns])
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=needed):
                kept = _without(left_out, batch, columns) if left_out else batch
                if kept.num_rows:
                    yield kept.select(columns).cast(wanted)
    except (pa.ArrowException, OSError) as error:
        raise DamagedSegmentError(
            f"{path} cannot be read: {error}. Bring it back from a backup; it was whole when its "
            "messages were acknowledged"
        ) from None


def _without(left_out: Mapping[Life, Encoded], batch: Any, columns: Sequence[str]) -> Any:
    """Column by column takes half as long as the batch at once."""
    import pyarrow as pa

    kept = _kept(batch, left_out)
    return pa.RecordBatch.from_arrays([batch[name].filter(kept) for name in columns], list(columns))


def _kept(batch: Any, left_out: Mapping[Life, Encoded]) -> Any:
    """Which rows, as a boolean array. Gateways are looked at only where a number is to be left out
    of any of them: those are few, and comparing text is slow.

    Arrow's arrays are made of buffers here: `pa.array` imports pandas to see whether it is given
    one of its series, which takes each worker 0.2 s, as long as half a million rows do.
    """
    import numpy as np
    import pyarrow as pa

    numbers = {life: _numbers(blocks) for life, blocks in left_out.items()}
    sequence = batch["seq"]
    kept: Any = np.ones(len(sequence), bool)
    values = sequence.buffers()[1]
    if values is None:  # none has a number
        return _bits(kept)
    raw = np.frombuffer(values, np.int64)[sequence.offset : sequence.offset + len(sequence)]
    # Where there is none it is anything, so what is suspected is looked at as what it is.
    suspects = np.flatnonzero(np.isin(raw, np.concatenate(list(numbers.values()))))
    chosen = pa.Array.from_buffers(
        pa.int64(), len(suspects), [None, pa.py_buffer(suspects.astype(np.int64))]
    )
    named = [batch[name].take(chosen).to_pylist() for name in ("gw", "epoch", "seq")]
    theirs = {life: frozenset(each.tolist()) for life, each in numbers.items()}
    for row, gateway, epoch, number in zip(suspects.tolist(), *named, strict=True):
        if number in theirs.get((gateway, epoch), ()):
            kept[row] = False
    return _bits(kept)


def _bits(truths: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    packed = pa.py_buffer(np.packbits(truths, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(truths), [None, packed])


def _numbers(blocks: Encoded) -> Any:
    import numpy as np

    found: list[Any] = [np.empty(0, np.int64)]
    for block, digits in blocks:
        octets = int(str(digits), 16).to_bytes(BLOCK_BITS // 8, "little")
        bits = np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
        found.append(np.flatnonzero(bits) + int(block) * BLOCK_BITS)
    return np.concatenate(found)
