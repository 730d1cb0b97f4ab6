"""Killed at any moment, again and again: what was reported committed is there, and nothing else.

A kill cannot show a missing sync (the system's memory survives it); that SQLite is asked for one
is in test_store.py.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from gateway.storage.state.folder import open_state
from tests.storage.state.examples import ANN, LINKS

KILLS = 6

# Each commit adds message N, takes N - 20 away and sets the session's next position, then says so.
PROGRAM = """
import sys
from pathlib import Path
from gateway.core.state_records import MessageDeleted, MessageRecord, SessionRecord, State
from gateway.storage.state.folder import open_state

state = open_state(Path(sys.argv[1]), ["udp0", "udp1"])
first = state.saved.clients[0].session.next_position if state.saved.clients else 0
print(first, flush=True)
for at in range(first, first + 1_000_000):
    session = SessionRecord("ann", False, 0, b"", State.ACTIVE, next_position=at + 1)
    state.store.commit([session, MessageRecord("ann", at, "t", bytes(at % 900), 1),
                        MessageDeleted("ann", at - 20)])
    print(at + 1, flush=True)
"""


def test_what_was_reported_committed_survives_every_kill(tmp_path: Path) -> None:
    dice = random.Random(7)
    epochs = [0]
    reported = 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            begun_at = int(child.stdout.readline())
            assert begun_at >= reported
            lines = [child.stdout.readline() for _ in range(dice.randrange(1, 300))]
            child.kill()
            lines += child.stdout.readlines()
        reported = int([line for line in lines if line.endswith("\n")][-1])
        state = open_state(tmp_path, LINKS)
        (ann,) = state.saved.clients
        assert reported <= ann.session.next_position <= reported + 1
        expected = range(max(0, ann.session.next_position - 20), ann.session.next_position)
        assert [row.position for row in ann.messages] == list(expected)
        assert all(row.payload == bytes(row.position % 900) for row in ann.messages)
        assert (ann.session.client_id, state.store.skipped) == (ANN, 0)
        epochs.append(state.epoch)
        state.release()
    assert epochs == sorted(set(epochs))
    assert reported > 500
