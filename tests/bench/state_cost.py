"""What the state store costs: rows a second, octets written, CPU, and the time to load.

    python -m tests.bench.state_cost [--folder DIR] [--sessions N] [--commits N]

The folder decides what is measured: give one on the card that the gateway will use. `written` is
what this process caused to be written to the disk (write_bytes of /proc/self/io), with the
checkpoints that follow.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.core.state_records import (
    Change,
    ClientId,
    MessageDeleted,
    MessageRecord,
    SessionRecord,
    State,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.storage.state.folder import open_state
from gateway.storage.state.pending import Pending
from gateway.storage.state.store import DATABASE_FILE, StateStore

LINKS = ("udp0",)
ADDRESS = b"\x02\x00\x07\x5b\x0a\x00\x00\x01" + bytes(8)
GROUPS = (1, 8, 64, 512)
TOPICS, SUBSCRIPTIONS, MESSAGES = 4, 2, 3
PAYLOAD = bytes(60)


@dataclass(slots=True)
class Cost:
    what: str
    group: int
    commit_ms: float
    cpu_us: float  # for one row
    written: float  # octets, for one row


def client(number: int) -> ClientId:
    return ClientId(f"sensor-{number:05d}")


def session(number: int, state: State) -> SessionRecord:
    return SessionRecord(client(number), False, 0, ADDRESS, state, 60, 900)


def rows_of(number: int) -> list[Change]:
    of, place = client(number), f"plant/zone-{number % 50}/bed-{number}"
    topics = [TopicRecord(of, at, f"{place}/value-{at}") for at in range(1, TOPICS + 1)]
    filters = [SubscriptionRecord(of, f"{place}/command-{at}/#", 1) for at in range(SUBSCRIPTIONS)]
    messages = [MessageRecord(of, at, f"{place}/command-0/x", PAYLOAD, 1) for at in range(MESSAGES)]
    return [session(number, State.ASLEEP), *topics, *filters, *messages]


def written_bytes() -> int:
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(": ")
        if name == "write_bytes":
            return int(value)
    return 0


def measure(store: StateStore, what: str, batches: list[list[Change]]) -> Cost:
    store.checkpoint()
    written, began, cpu = written_bytes(), time.perf_counter(), time.process_time()
    for batch in batches:
        store.commit(batch)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    store.checkpoint()
    rows = sum(map(len, batches))
    per_row = (written_bytes() - written) / rows
    return Cost(what, len(batches[0]), elapsed / len(batches) * 1e3, cpu / rows * 1e6, per_row)


def costs(store: StateStore, sessions: int, commits: int) -> list[Cost]:
    """Sessions that change, and messages that come and go, of clients all over the place."""
    dice = random.Random(1)
    found = []
    for group in GROUPS:
        changed: list[list[Change]] = [
            [session(dice.randrange(sessions), dice.choice(list(State))) for _ in range(group)]
            for _ in range(max(20, commits // group))
        ]
        found.append(measure(store, "sessions changed", changed))
        owners = [[client(dice.randrange(sessions)) for _ in batch] for batch in changed]
        come: list[list[Change]] = [
            [
                MessageRecord(of, 100 + at, "plant/command", PAYLOAD, 1)
                for at, of in enumerate(batch)
            ]
            for batch in owners
        ]
        gone: list[list[Change]] = [
            [MessageDeleted(of, 100 + at) for at, of in enumerate(batch)] for batch in owners
        ]
        found.append(measure(store, "messages saved", come))
        found.append(measure(store, "messages gone", gone))
    return found


def pending_us(changes: list[Change]) -> tuple[float, float]:
    """CPU of the loop for one change: to add it, and to take it in one batch."""
    pending = Pending()
    began = time.process_time()
    for change in changes:
        pending.add(change, 0.0)
    added = time.process_time()
    batch = pending.take()
    assert batch is not None
    pending.committed(batch)
    ended = time.process_time()
    return (added - began) / len(changes) * 1e6, (ended - added) / len(changes) * 1e6


def report(folder: Path, sessions: int, commits: int) -> Iterator[str]:
    rows = [row for number in range(sessions) for row in rows_of(number)]
    state = open_state(folder, LINKS)
    began = time.perf_counter()
    state.store.commit(rows)
    yield f"{len(rows):,} rows in one commit: {time.perf_counter() - began:.2f} s"
    yield f"{'':20} {'rows':>5} {'ms a commit':>12} {'CPU us a row':>13} {'written a row':>14}"
    for cost in costs(state.store, sessions, commits):
        figures = f"{cost.commit_ms:12.2f} {cost.cpu_us:13.1f} {cost.written:14,.0f}"
        yield f"{cost.what:20} {cost.group:5} {figures}"
    state.release()
    began = time.perf_counter()
    state = open_state(folder, LINKS)
    elapsed = time.perf_counter() - began
    size = (folder / DATABASE_FILE).stat().st_size / (1 << 20)
    yield f"opened, {len(state.saved.clients):,} sessions: {elapsed:.2f} s, {size:.1f} MiB"
    state.release()
    added, taken = pending_us(rows)
    yield f"pending, CPU of the loop for a row: {added:.1f} us added, {taken:.1f} us taken"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.state_cost", description="Measure what the state store costs."
    )
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument(
        "--sessions", type=int, default=10_000, help="clients (default: %(default)s)"
    )
    parser.add_argument(
        "--commits", type=int, default=500, help="of one row; fewer of many (default: %(default)s)"
    )
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="state-cost-", dir=given.folder))
    try:
        for line in report(folder, given.sessions, given.commits):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
