"""Rows to the bytes of a Parquet file and back. The only file of the collector that uses PyArrow.

The bytes are made in memory, so that the disk sees one write, and its errors are the disk's own.
Pages carry checksums; readers that ask for it find damage.

PyArrow has wheels for x86-64 and aarch64; 32-bit ARM has none, and `missing_pyarrow` says so.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from spark_ingest.installing import brings
from spark_ingest.payload.record import COLUMNS
from spark_ingest.segments.footer import KEY, Footer, FooterError
from spark_ingest.segments.rows import Columns

COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1  # 3 costs twice the time for 4 % less
_OF_MESSAGE = ("gw", "client", "epoch", "seq", "topic", "qos", "retain", "gw_ts", "rx_ts", "schema")
# Few words, many rows. Numbers and payloads gain nothing from a dictionary.
_OF_FEW_WORDS = (
    "gw",
    "client",
    "topic",
    "ts_src",
    "device",
    "metric",
    "unit",
    "schema",
    "error",
)


def missing_pyarrow() -> str | None:
    """What to do about it, or None where there is nothing missing."""
    if importlib.util.find_spec("pyarrow") is not None:
        return None
    return (
        "segments are Parquet, which needs PyArrow (there is none for 32-bit ARM: run the "
        "collector on a 64-bit machine, it need not be the broker's):  "
        f"{brings('collect', 'pyarrow')}"
    )


def octets_of(columns: Columns, footer: Footer) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = table_of(columns)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=list(_OF_FEW_WORDS),
        write_page_checksum=True,
        # It would repeat what the columns say, and every footer in it.
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY: footer.encoded()})
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def schema() -> Any:
    import pyarrow as pa

    return pa.schema([(each.name, _type(each.type)) for each in COLUMNS])


def read_footer(path: Path) -> Footer:
    """Raises FooterError with the path, and OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path).metadata or {}
    except pa.ArrowInvalid as error:
        raise FooterError(f"{path} is damaged: {error}") from None
    try:
        return Footer.decoded(metadata.get(KEY))
    except FooterError as error:
        raise FooterError(f"{path}: {error}") from None


def table_of(columns: Columns) -> Any:
    """A `pyarrow.Table`. Columns of messages become columns of rows, in compiled code."""
    import pyarrow as pa

    message = pa.array(columns.message, pa.int32())
    arrays = []
    for each in schema():
        if each.name == "payload":
            shown = pa.array(columns.payload_of, pa.int32())
            arrays.append(pa.array(columns.payload, each.type).take(shown))
        elif each.name in _OF_MESSAGE:
            arrays.append(pa.array(getattr(columns, each.name), each.type).take(message))
        else:
            arrays.append(pa.array(getattr(columns, each.name), each.type))
    return pa.table(arrays, schema=schema())


def _type(name: str) -> Any:
    import pyarrow as pa

    if name.startswith("timestamp"):
        return pa.timestamp("us", tz="UTC")
    return pa.float64() if name == "double" else getattr(pa, "bool_" if name == "bool" else name)()
