"""A journal with readings in it, written by the journal itself, as a gateway would leave it."""

from collections.abc import Sequence
from pathlib import Path

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import JournalOptions
from gateway.transports.clock import now, unix_ms_at_zero

ONE_GROUP = 500


def new_reading(
    payload: bytes = b"21.5",
    *,
    sequence: int = 0,
    client: str = "greenhouse-7",
    topic: str = "sensors/boot",
    qos: int = 1,
    retain: bool = False,
    age_s: float = 0.0,
) -> Reading:
    received_at = now() - age_s
    return Reading(
        ClientId(client),
        topic,
        payload,
        qos,
        retain,
        topic_id=1,
        message_id=1 + sequence % 60_000,
        received_at=received_at,
        sequence=sequence,
        unix_ms=int(received_at * 1000) + unix_ms_at_zero(),
        epoch=7,
        packet_id=1 + sequence % 60_000,
    )


def store(
    folder: Path,
    readings: Sequence[Reading],
    *,
    finished: Sequence[Reading] = (),
    received: Sequence[Reading] = (),
) -> None:
    """`received`: the broker has received these and not yet released them."""
    journal = Journal(folder, OsFiles(), JournalOptions(size_max_bytes=32 << 20))
    journal.open(now(), unix_ms_at_zero(), read_boot_id())
    for start in range(0, len(readings), ONE_GROUP):
        for reading in readings[start : start + ONE_GROUP]:
            assert journal.store(reading, is_queued=True) is None
        _write(journal)
    for reading in finished:
        journal.finish(reading)
    for reading in received:
        journal.receive(reading)
    _write(journal)
    journal.close()


def _write(journal: Journal) -> None:
    group = journal.begin_group(now(), is_stopping=True)
    if group is not None:
        journal.write(group)
        outcome = journal.end_group(group, None)
        assert not outcome.not_stored
