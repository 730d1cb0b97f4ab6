"""Who plays in the examples of docs/: sensors in the states that a page shows, and a serial line.

`python -m tests.docs.cast clients` and so on, run in a page's root before what is shown.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import time
import tty
from pathlib import Path

from hil.rig.line_framings import Hdlc
from tests.support.hand_written_sensor import framed, opened, u16

GATEWAY = ("127.0.0.1", 1883)
CONNECT, CONNACK, WILLTOPICREQ, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, DISCONNECT = (
    0x04, 0x05, 0x06, 0x0C, 0x0D, 0x12, 0x13, 0x18,
)  # fmt: skip
REGISTER, REGACK, PINGREQ = 0x0A, 0x0B, 0x16
CONFIGURATION = Path("/etc/tidegate/config.toml")
SECRET = Path("/etc/tidegate/admin.password")
PORT = Path("/dev/ttyUSB0")
TANK_SLEEPS_S = 16  # and is lost half as long afterwards


class Sensor:
    def __init__(self, name: str, *, is_clean: bool = False) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(30)
        self._socket.connect(GATEWAY)
        self._ask(CONNECT, bytes((4 * is_clean, 1)) + u16(600) + name.encode(), CONNACK)

    def listen(self, topic: str) -> None:
        self._ask(SUBSCRIBE, b"\x20" + u16(1) + topic.encode(), SUBACK)

    def publish(self, topic: str, payload: bytes) -> None:
        number = self._ask(REGISTER, u16(0) + u16(2) + topic.encode(), REGACK)[:2]
        self._ask(PUBLISH, b"\x20" + number + u16(3) + payload, PUBACK)

    def sleep(self, duration_s: int) -> None:
        self._ask(DISCONNECT, u16(duration_s), DISCONNECT)

    def leave(self) -> None:
        self._ask(DISCONNECT, b"", DISCONNECT)

    def _ask(self, kind: int, body: bytes, answer: int) -> bytes:
        self._socket.send(framed(kind, body))
        while True:
            heard, content = opened(self._socket.recv(2048))
            if heard == answer:
                return content


def clients() -> None:
    """Four sensors, as in docs/operating.md; returns when the tank is overdue."""
    for name, asleep_s in (("greenhouse-1", 0), ("greenhouse-2", 900), ("well", 1)):
        sensor = Sensor(name)
        if asleep_s:
            sensor.listen(f"{name}/set")
            sensor.sleep(asleep_s)
    tank = Sensor("tank")
    tank.sleep(TANK_SLEEPS_S)
    for name, count in (("greenhouse-2", 2), ("well", 1)):
        for _ in range(count):
            subprocess.run(["mosquitto_pub", "-q", "1", "-t", f"{name}/set", "-m", "1"], check=True)
    time.sleep(TANK_SLEEPS_S + 0.5)


def aside() -> None:
    """A reading that the gateway has acknowledged and the broker will refuse."""
    pump = Sensor("pump-3", is_clean=True)
    pump.publish("pumps/3/x", b"21.5")
    pump.leave()


def serial() -> None:
    """A line with three nodes behind a bridge, a gateway that has it, and a password to act."""
    ours, theirs = pty.openpty()
    tty.setraw(ours)
    Path(os.ttyname(theirs)).chmod(0o666)
    PORT.symlink_to(os.ttyname(theirs))
    if os.fork() == 0:
        os.setsid()
        _speak(ours)
    SECRET.write_text("a long one\n")
    shutil.chown(SECRET, "tidegate")
    configuration = CONFIGURATION.read_text()
    configuration = configuration.replace("[admin]\n", f'[admin]\npassword_file = "{SECRET}"\n')
    CONFIGURATION.write_text(f'{configuration}\n[[serial]]\nport = "{PORT}"\n')
    subprocess.run(["systemctl", "restart", "tidegate"], check=True)
    while (
        " open "
        not in subprocess.run(["tidegate", "serial"], capture_output=True, text=True).stdout
    ):
        time.sleep(0.2)


def _speak(line: int) -> None:
    """PINGREQ of each node, twice a second, until it is ended."""
    while True:
        for node in (1, 2, 3):
            os.write(line, Hdlc().wrap(bytes((5, 0xFE, 0)) + u16(node) + framed(PINGREQ, b"")))
        if select.select([line], [], [], 0.5)[0]:
            os.read(line, 4096)


if __name__ == "__main__":
    {"clients": clients, "aside": aside, "serial": serial}[sys.argv[1]]()
