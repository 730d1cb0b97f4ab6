"""What the journal costs: records a second, octets written, CPU, and the time to recover.

    python -m tests.bench.journal_cost [--folder DIR] [--records N] [--recover N]

The folder decides what is measured: give one on the card that the gateway will use. `device` is
what reached the block device below it, read from /sys/dev/block (the whole device, so let nothing
else write there); it is left out where there is none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import JournalOptions

BOOT_ID = b"journal_cost...."
UNIX_MS = 1_767_225_600_000
GROUPS = (1, 8, 64, 512)
PAYLOAD = bytes(range(100))
SECTOR_BYTES = 512


@dataclass(slots=True)
class Cost:
    group: int
    records_per_s: float
    store_us: float  # CPU of `store` alone
    cpu_us: float  # of everything, for one record
    written: float  # octets given to the file system, for one record
    device: float | None  # octets that reached the device, for one record
    syncs: float  # for one group


def new_reading(position: int) -> Reading:
    """A reading of 100 bytes: client id 10, topic 20."""
    return Reading(
        client_id=ClientId(f"sensor-{position % 1000:03d}"),
        topic="plant/zone-4/climate",
        payload=PAYLOAD,
        qos=1,
        retain=False,
        topic_id=1,
        message_id=position % 65_535 + 1,
        received_at=time.monotonic(),
        sequence=position,
        unix_ms=UNIX_MS,
        epoch=1,
        packet_id=position % 65_000 + 1,
    )


def opened(folder: Path) -> Journal:
    journal = Journal(folder, OsFiles(), JournalOptions())
    journal.open(time.monotonic(), UNIX_MS, BOOT_ID)
    return journal


def write_all(journal: Journal, *, is_stopping: bool = False) -> list[Reading]:
    stored: list[Reading] = []
    while group := journal.begin_group(time.monotonic(), is_stopping=is_stopping):
        journal.write(group)
        stored += journal.end_group(group, None).stored
    return stored


def device_bytes(folder: Path) -> int | None:
    """Written to the block device since it was there."""
    device = folder.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    try:
        return int(stat.read_text(encoding="ascii").split()[6]) * SECTOR_BYTES
    except OSError:
        return None


def measure(folder: Path, group: int, records: int) -> Cost:
    """In steady state: what was stored is finished a group later."""
    journal = opened(folder)
    readings = [new_reading(position) for position in range(records)]
    numbers = journal.numbers
    before, syncs, groups = numbers.bytes_written, numbers.syncs, numbers.groups
    os.sync()
    device = device_bytes(folder)
    store_s = 0.0
    cpu, wall = time.process_time(), time.perf_counter()
    for start in range(0, records, group):
        started = time.process_time()
        for reading in readings[start : start + group]:
            journal.store(reading, is_queued=False)
        store_s += time.process_time() - started
        for reading in write_all(journal):
            journal.finish(reading)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    os.sync()
    device_after = device_bytes(folder)
    numbers = journal.numbers
    journal.close()
    return Cost(
        group,
        records / wall,
        store_s / records * 1e6,
        cpu / records * 1e6,
        (numbers.bytes_written - before) / records,
        None if device is None or device_after is None else (device_after - device) / records,
        (numbers.syncs - syncs) / (numbers.groups - groups),
    )


def measure_recovery(folder: Path, records: int) -> tuple[float, float]:
    """Seconds to recover, and to read the whole backlog back."""
    journal = opened(folder)
    for start in range(0, records, 512):
        for position in range(start, min(start + 512, records)):
            journal.store(new_reading(position), is_queued=True)
        write_all(journal)
    journal.close()
    started = time.perf_counter()
    journal = opened(folder)
    recovered = time.perf_counter()
    count = 0
    while request := journal.begin_read(time.monotonic()):
        count += len(journal.end_read(request, journal.read(request)))
    read = time.perf_counter()
    journal.close()
    if count != records:
        raise SystemExit(f"{records} readings were stored, {count} came back")
    return recovered - started, read - recovered


def show(cost: Cost) -> str:
    device = "-" if cost.device is None else f"{cost.device:,.0f}"
    return (
        f"{cost.group:>6}{cost.records_per_s:>14,.0f}{cost.store_us:>12.2f}{cost.cpu_us:>12.2f}"
        f"{cost.written:>14,.0f}{device:>12}{cost.syncs:>14.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What the journal costs on this machine.")
    parser.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    parser.add_argument("--records", type=int, default=40_000, help="for each size of group")
    parser.add_argument("--recover", type=int, default=1_000_000, help="records to recover; or 0")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="journal-cost-", dir=options.folder))
    out = sys.stdout
    try:
        out.write("readings of 100 bytes, client id of 10, topic of 20; finished a group later\n")
        out.write(" group     records/s    store us      CPU us  bytes given   on device")
        out.write("  syncs/group\n")
        for group in GROUPS:
            records = min(options.records, group * 2000)
            out.write(show(measure(base / str(group), group, records)) + "\n")
            shutil.rmtree(base / str(group))
        if options.recover:
            recover_s, read_s = measure_recovery(base / "recovery", options.recover)
            rate = options.recover / read_s
            out.write(f"recovery of {options.recover:,} records: {recover_s:.2f} s; ")
            out.write(f"reading them back: {rate:,.0f} a second\n")
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
