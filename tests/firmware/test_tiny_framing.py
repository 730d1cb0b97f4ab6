"""The small sensor's framing, on a real micro:bit's MicroPython, by the golden file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from firmware.tiny import build
from gateway.flashing.console import Console
from hil.boards.microbit.board import MicrobitBoard
from tests.firmware.test_framing import octets_of, rows
from tests.support.microbit import require_microbit

OCTETS_MAX = 64  # of a message
NAMES = {"check", "framed", "frames"}
RECEIVED = """
def received(o):
    got = []
    f = frames(lambda: o.pop(0) if o else None)
    while True:
        frame = next(f)
        if frame is not None:
            got.append(frame)
        elif not o:
            return got
"""


def framing_alone() -> Iterator[str]:
    """As it is written, but for constants and annotations, which its MicroPython does not know."""
    tree = ast.parse(build.SOURCE.read_text())
    tree.body = tree.body[1:]
    whole = build.without_constants(tree)
    build.TinyPress({}).visit(whole)
    for node in ast.fix_missing_locations(whole).body:
        if isinstance(node, ast.FunctionDef) and node.name in NAMES:
            yield ast.unparse(node)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    require_microbit()
    with MicrobitBoard(tmp_path_factory.mktemp("framing")) as board:
        board.start()
        with Console(board.device) as opened:
            opened.stop()
            for part in [*framing_alone(), RECEIVED]:
                opened.run(part)
            yield opened


def asked(console: Console, expression: str) -> object:
    return ast.literal_eval(console.run(f"print({expression})").strip())


def pieces_of(octets: bytes) -> str:
    """A list as Python text, which is short though the bytes may be many."""
    if len(octets) < 200:
        return repr([octets])
    middle = octets[20:-20]
    most = max(set(middle), key=middle.count)
    assert middle.strip(bytes((most,))) == b"", octets
    whole, rest = divmod(len(middle), 50)
    head = octets[:20] + bytes((most,)) * rest
    return f"[{head!r}]+[{bytes((most,))!r}*50]*{whole}+[{octets[-20:]!r}]"


def is_for_it(message: bytes) -> bool:
    return len(message) <= OCTETS_MAX and message[0] == len(message)


def test_what_is_sent_is_what_the_golden_file_has(console: Console) -> None:
    for name, line, (message,) in rows("sent"):
        if is_for_it(message):  # the others are longer than any of its frames
            assert asked(console, f"bytes(framed({message!r}))") == line, name


def test_what_is_received_is_what_the_golden_file_has(console: Console) -> None:
    for name, line, messages in rows("sent") + rows("received"):
        wanted = [message for message in messages if is_for_it(message)]
        assert asked(console, f"received({pieces_of(line)})") == wanted, name


def test_octets_may_come_one_by_one(console: Console) -> None:
    line = octets_of("7e 070d0005000700 e85d 7e 7e 7d22164049 7e")
    pieces = [line[at : at + 1] for at in range(len(line))]
    assert asked(console, f"received({pieces!r})") == [
        bytes.fromhex("070d0005000700"),
        bytes.fromhex("0216"),
    ]
