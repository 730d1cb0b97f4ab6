"""Many boards of real MicroPython in this process, a thread for each: test_fleet.py starts it.

Arguments: folder of the flash that all of them read, port of the gateway, boards, readings of each.
Standard output: a JSON object for each board with what it printed, when all have ended.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hil.boards.wasi.machine import Setting, run_program

HEAP = "32k"
PROGRAM = """
from mqttsn import Client, Udp
client = Client(Udp(("127.0.0.1", {port})), b"fleet-{board}")
client.engine.retry_ms = 3_000
client.engine.retries = 8
for number in range({readings}):
    client.publish(b"fleet/{board}", b"%d" % number, 1)
client.sleep(0)
print("done")
"""


def main() -> None:
    flash, port, boards, readings = Path(sys.argv[1]), *map(int, sys.argv[2:5])

    def lived(board: int) -> str:
        printed = bytearray()
        program = PROGRAM.format(port=port, board=board, readings=readings)
        run_program(Setting(flash, HEAP), program, printed.extend)
        return printed.decode(errors="replace").strip()

    lived_one = lived(boards)  # compiles the interpreter, if nobody has yet
    with ThreadPoolExecutor(boards) as pool:
        printed = [lived_one, *pool.map(lived, range(boards))]
    sys.stdout.write(json.dumps(printed))
    sys.stdout.flush()
    os._exit(0)  # as in hil/boards/wasi/__main__.py


if __name__ == "__main__":
    main()
