"""A journal with readings in it, written by the journal itself, as a gateway would leave it."""

from collections.abc import Sequence
from pathlib import Path

from gateway.core.effects import ClientId, Forward
from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import JournalRules
from gateway.transports.clock import now, unix_ms_at_zero

ONE_GROUP = 500


def reading(
    payload: bytes = b"21.5",
    *,
    sequence: int = 0,
    client: str = "greenhouse-7",
    topic: str = "sensors/boot",
    qos: int = 1,
    retain: bool = False,
    age_s: float = 0.0,
) -> Forward:
    received_at = now() - age_s
    return Forward(
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
    readings: Sequence[Forward],
    *,
    finished: Sequence[Forward] = (),
    received: Sequence[Forward] = (),
) -> None:
    """`received`: the broker has received these and not yet released them."""
    journal = Journal(folder, OsFiles(), JournalRules(size_max_bytes=32 << 20))
    journal.open(now(), unix_ms_at_zero(), read_boot_id())
    for start in range(0, len(readings), ONE_GROUP):
        for forward in readings[start : start + ONE_GROUP]:
            assert journal.store(forward, is_parked=True) is None
        _write(journal)
    for forward in finished:
        journal.finish(forward)
    for forward in received:
        journal.receive(forward)
    _write(journal)
    journal.close()


def _write(journal: Journal) -> None:
    group = journal.begin_group(now(), is_stopping=True)
    if group is not None:
        journal.write(group)
        outcome = journal.end_group(group, None)
        assert not outcome.not_stored
