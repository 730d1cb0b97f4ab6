"""What the library takes of a node's heap, measured by MicroPython itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.firmware import footprint
from tests.firmware.conftest import BoardMaker

# A socket that allocates nothing (real ones do, for what `recv` returns), with a gateway behind it
# that accepts everything at once: what is measured is the library's, from `publish` down to the
# socket's `write`.
ACCEPTED = """
import gc, io, sys

class Accepting(io.IOBase):
    def __init__(self, family, kind):
        self.answer = bytearray(8)
        self.answers = [bytearray(size) for size in range(8)]
        self.size = 0
    def setblocking(self, blocks): pass
    def bind(self, address): pass
    def connect(self, address): pass
    def ioctl(self, request, argument):
        return 1 if self.size else 0
    def write(self, frame, size):
        kind, answer = frame[1], self.answer
        answer[1] = kind + 1
        answer[2] = answer[6] = 0
        if kind == 4:
            self.size = 3
        elif kind == 10:
            answer[3] = 9
            answer[4] = frame[4]
            answer[5] = frame[5]
            self.size = 7
        elif kind == 12 and frame[2] & 96 == 32:
            for at in range(2, 6):
                answer[at] = frame[at + 1]
            self.size = 7
        elif kind == 12 and frame[2] & 96 == 64:
            answer[1] = 15
            answer[2] = frame[5]
            answer[3] = frame[6]
            self.size = 4
        elif kind == 16:
            answer[1] = 14
            answer[2] = frame[2]
            answer[3] = frame[3]
            self.size = 4
        answer[0] = self.size
        return size
    def recv(self, size):
        heard = self.answers[self.size]
        for at in range(self.size):
            heard[at] = self.answer[at]
        self.size = 0
        return heard

class Sockets:
    AF_INET = SOCK_DGRAM = 2
    socket = Accepting
    def getaddrinfo(host, port):
        return ((0, 0, 0, "", (host, port)),)

sys.modules["socket"] = Sockets
from mqttsn import Client, Udp
client = Client(Udp(("127.0.0.1", 1883)), b"node")
"""
ALLOCATED = """
payload = b"21.5" * 5
client.publish(b"a/b", payload, 1)
_ = before = 0
for qos in 0, 1, 2:
    client.publish(b"a/b", payload, qos)
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(20):
        client.publish(b"a/b", payload, qos)
    print("qos", qos, (gc.mem_alloc() - before) / 20)
    gc.enable()
"""
MANY = """
payload = b"21.5"
client.publish(b"a/b", payload, 1)
gc.collect()
first = highest = gc.mem_alloc()
for number in range(100_000):
    client.publish(b"a/b", payload, 1)
    if number % 1000 == 0:
        gc.collect()
        highest = max(highest, gc.mem_alloc())
print("grown", highest - first)
"""


def test_the_library_keeps_within_five_kib_of_heap(new_board: BoardMaker) -> None:
    kept, peak = footprint.measured(new_board(), footprint.ROWS[0])
    assert kept <= 5 * 1024
    assert peak <= 7 * 1024


def test_the_table_in_the_documentation_is_what_is_measured(library: Path, tmp_path: Path) -> None:
    rows = footprint.table(library, tmp_path / "flash")
    document = footprint.DOCUMENT.read_text(encoding="utf-8")
    assert document == footprint.with_table(document, rows), (
        "type  .venv/bin/python -m tests.firmware.footprint --write-docs"
    )
    assert rows in document


def test_publishing_allocates_nothing(new_board: BoardMaker) -> None:
    board = new_board()
    assert board.run(ACCEPTED + ALLOCATED).code == 0, board.output
    assert board.output.splitlines() == ["qos 0 0.0", "qos 1 0.0", "qos 2 0.0"]


@pytest.mark.timeout(300)
def test_the_heap_stays_as_it_is_for_more_readings_than_there_are_message_ids(
    new_board: BoardMaker,
) -> None:
    board = new_board("32k")
    assert board.run(ACCEPTED + MANY, timeout_s=200).code == 0, board.output
    (grown,) = map(int, re.findall(r"-?\d+", board.output))
    assert abs(grown) <= 256
