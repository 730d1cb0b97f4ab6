"""Every module of a node can be imported on every MicroPython that there is here, and on one that
has no network: a Pico without W, or a node on a serial line.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from firmware import image
from firmware.build import ALONE, BUNDLE, SOURCES
from hil.boards.unix import interpreter
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.conftest import BoardMaker
from tests.firmware.serial_line import SerialLine
from tests.firmware.session_bench import next_heard, run
from tests.firmware.test_serial import BEGIN as SERIAL_CLIENT
from tests.support.application import application
from tests.support.boards import require_board

# What such a port leaves out. A file of that name comes before what the interpreter has.
NETWORK = ("socket", "ssl", "tls", "network")
# Each in its turn, and nothing of the one before is there.
IMPORT_ALL = """
import sys
for name in {names!r}:
    sys.modules.clear()
    __import__(name)
    print(name)
"""
NO_ASYNCIO = {"mqttsn.aio"}  # which the simulated board has not


def library_modules() -> list[str]:
    return ["mqttsn", *(f"mqttsn.{name}" for name in ALONE)]


def source_modules() -> list[str]:
    return ["mqttsn", *(f"mqttsn.{name}" for name in (*BUNDLE, *ALONE))]


def node_modules(files: Path) -> list[str]:
    paths = [path.relative_to(files).with_suffix("") for path in sorted(files.rglob("*.mpy"))]
    return [path.as_posix().replace("/", ".").removesuffix(".__init__") for path in paths]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_board()
    folder = tmp_path_factory.mktemp("node")
    application_files = image.application(1)
    image.write(
        folder, image.loader() | {f"a/{name}": each for name, each in application_files.items()}
    )
    return folder


def take_network(folder: Path) -> Path:
    for name in NETWORK:
        text = f"raise ImportError(\"no module named '{name}'\")\n"
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(params=["whole", "no-network"])
def first(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where modules are looked for first."""
    folder = tmp_path / "first"
    folder.mkdir()
    return folder if request.param == "whole" else take_network(folder)


def run_unix(names: list[str], *folders: Path) -> list[str]:
    reason = interpreter.why_not()
    if reason is not None:
        pytest.skip(f"not run, no MicroPython of the Unix port: {reason}")
    ended = subprocess.run(
        [interpreter.path(), "-X", "heapsize=256k", "-c", IMPORT_ALL.format(names=names)],
        env={**os.environ, "MICROPYPATH": ":".join([*map(str, folders), ".frozen"])},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


def test_the_library_on_the_unix_port(first: Path, library: Path) -> None:
    names = library_modules()
    assert run_unix(names, first, library) == names


def test_its_sources_on_the_unix_port(first: Path) -> None:
    names = source_modules()
    assert run_unix(names, first, SOURCES.parent) == names


def test_the_library_on_the_simulated_board(first: Path, new_board: BoardMaker) -> None:
    board = new_board()
    for path in first.iterdir():
        board.put(path.name, path.read_text())
    names = [name for name in library_modules() if name not in NO_ASYNCIO]
    assert run(board, IMPORT_ALL.format(names=names)) == names


def test_the_application_on_the_unix_port(first: Path, node: Path) -> None:
    names = node_modules(node)
    assert {"a.app.talk", "a.mqttsn", "loader.start"} <= set(names)
    assert run_unix(names, first, node, interpreter.MODULES) == names


def test_without_a_network_the_transport_says_what_the_board_lacks(new_board: BoardMaker) -> None:
    text = """
from mqttsn import Udp
from mqttsn.search import find
def receive():
    Udp(("192.0.2.1", 1883)).receive(bytearray(8), 0)
def search():
    find(("225.1.1.1", 1883))
for use in receive, search:
    try:
        use()
    except ImportError as error:
        print(error)
"""
    board = new_board()
    take_network(board.flash)
    assert run(board, text) == ["no module named 'socket'"] * 2


def test_without_a_network_readings_go_by_the_serial_line(
    new_board: BoardMaker, serial_gateway: GatewayProcess, broker: Mosquitto, line: SerialLine
) -> None:
    board = new_board(uarts=(line.device,))
    take_network(board.flash)

    async def inner() -> None:
        async with application(broker, "a/#") as app:
            await asyncio.to_thread(run, board, SERIAL_CLIENT + 'client.publish(b"a/b", b"x", 1)\n')
            assert await next_heard(app, 1) == [("a/b", b"x", 1)]

    asyncio.run(inner())
