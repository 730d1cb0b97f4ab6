"""Segments to Arrow batches, without the readings that the plan leaves out. No Spark in here.

A damaged page is an error with the segment's name: rows that cannot be read must not vanish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_ingest.planning.seen import GatewayEpoch
from spark_ingest.segments.segment import schema
from spark_ingest.segments.sequences import BLOCK_BITS, Encoded

BATCH_ROWS = 65_536
NOT_A_NUMBER = -1  # of a gateway, an epoch or a sequence


class DamagedSegmentError(Exception):
    """Its footer is whole and its rows are not."""


def batches_of(
    path: Path, columns: Sequence[str], left_out: Mapping[GatewayEpoch, Encoded]
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
                    chosen = kept.select(columns)
                    yield chosen if chosen.schema == wanted else chosen.cast(wanted)
    except (pa.ArrowException, OSError) as error:
        raise DamagedSegmentError(
            f"{path} cannot be read: {error}. Bring it back from a backup; it was whole when its "
            "messages were acknowledged"
        ) from None


def _without(left_out: Mapping[GatewayEpoch, Encoded], batch: Any, columns: Sequence[str]) -> Any:
    """Column by column takes half as long as the batch at once, and what is empty all the way down,
    as a quarter of the columns nearly always is, needs no look.
    """
    import pyarrow as pa

    kept, rows = _kept(batch, left_out)
    if rows == batch.num_rows:
        return batch
    filtered = []
    for name in columns:
        column = batch[name]
        is_empty = column.null_count == len(column)
        filtered.append(column.slice(0, rows) if is_empty else column.filter(kept))
    return pa.RecordBatch.from_arrays(filtered, list(columns))


def _kept(batch: Any, left_out: Mapping[GatewayEpoch, Encoded]) -> tuple[Any, int]:
    """Which rows, as a boolean array, and how many. Gateways are looked at only where a number is
    to be left out of any of them: those are few, and comparing text is slow.

    Arrow's arrays are made of buffers here, and read as such: `pa.array` and `to_numpy` import
    pandas, which takes each worker 0.2 s, as long as half a million rows do.
    """
    import numpy as np
    import pyarrow as pa

    numbers = {its_epoch: _numbers(blocks) for its_epoch, blocks in left_out.items()}
    sequence = batch["seq"]
    kept: Any = np.ones(len(sequence), bool)
    values = sequence.buffers()[1]
    if values is None:  # none has a number
        return _bits(kept), len(kept)
    raw = np.frombuffer(values, np.int64)[sequence.offset : sequence.offset + len(sequence)]
    # Where there is none it is anything, so what is suspected is looked at as what it is.
    suspects = np.flatnonzero(np.isin(raw, np.concatenate(list(numbers.values()))))
    chosen = pa.Array.from_buffers(
        pa.int64(), len(suspects), [None, pa.py_buffer(suspects.astype(np.int64))]
    )
    gateways = batch["gw"].take(chosen).dictionary_encode()
    names = gateways.dictionary.to_pylist()
    gateway = _values(gateways.indices, np.int32)
    epoch = _values(batch["epoch"].take(chosen), np.int64)
    number = _values(sequence.take(chosen), np.int64)
    for (name, its_epoch), theirs in numbers.items():
        if name in names:
            of_epoch = (gateway == names.index(name)) & (epoch == its_epoch)
            kept[suspects[of_epoch & np.isin(number, theirs)]] = False
    return _bits(kept), int(np.count_nonzero(kept))


def _values(column: Any, kind: Any) -> Any:
    """NOT_A_NUMBER where there is nothing."""
    import numpy as np

    valid, octets = column.buffers()
    part = slice(column.offset, column.offset + len(column))
    values = np.frombuffer(octets, kind)[part]
    if not column.null_count:
        return values
    is_there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[part]
    return np.where(is_there, values, NOT_A_NUMBER)


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
