"""What a segment says about itself, so that its rows need not be read to plan, audit or list.

It stands as JSON under the key `tidegate` of the Parquet file's metadata, with a checksum of its
own: a flipped bit in it would make readings vanish from the plan without a word.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from spark_ingest.payload.record import SCHEMA_VERSION
from spark_ingest.segments.sequences import Encoded, sequences_by_epoch

KEY = b"tidegate"


class FooterError(Exception):
    """The footer is damaged, absent, or of a version that we do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    collector: str
    number: int
    rows: int
    messages: int
    repeated: int  # left out: they are in this segment already
    quarantined: Mapping[str, int]  # rows, by fault
    first_us: int  # when the first message got to the collector, Unix time
    last_us: int
    ids: Mapping[str, Encoded]  # what is here, by `gateway/epoch`
    schemas: Mapping[str, Mapping[str, list[str | float | None]]]  # fields by schema id
    version: int = SCHEMA_VERSION

    def encoded(self) -> bytes:
        body = json.dumps(asdict(self), separators=(",", ":")).encode()
        return b"%08x%b" % (zlib.crc32(body), body)

    @classmethod
    def decoded(cls, octets: bytes | None) -> Footer:
        if octets is None:
            raise FooterError("it has no footer of ours; is it a segment?")
        checksum, body = octets[:8], octets[8:]
        if checksum != b"%08x" % zlib.crc32(body):
            raise FooterError("its footer is damaged: the checksum does not fit")
        try:
            given = json.loads(body)
            version = given["version"]
            if version > SCHEMA_VERSION:
                raise FooterError(
                    f"it is of version {version}, this program knows {SCHEMA_VERSION}"
                )
            footer = cls(**{each.name: given[each.name] for each in fields(cls)})
            sequences_by_epoch(footer.ids)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FooterError(f"its footer is damaged: {error!r}") from None
        return footer
