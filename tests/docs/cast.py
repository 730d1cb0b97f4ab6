"""Who plays in the examples of docs/: sensors in the states that a page shows, and a serial line.

`python -m tests.docs.cast clients` and so on, run in a page's root before what is shown.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
import tty
from pathlib import Path

from hil.rig.line_framings import Hdlc
from hil.rig.scripted_client import PINGREQ, BlockingClient, framed, u16

GATEWAY_PORT = 1883
CONFIGURATION = Path("/etc/tidegate/config.toml")
SECRET = Path("/etc/tidegate/admin.password")
PORT = Path("/dev/ttyUSB0")
TANK_SLEEPS_S = 16  # and is lost half as long afterwards


class Sensor(BlockingClient):
    def __init__(self, name: str, *, is_clean: bool = False) -> None:
        super().__init__(GATEWAY_PORT, name, timeout_s=200)
        self.does(self.connecting(clean=is_clean, keep_alive_s=600))


def clients() -> None:
    """Four sensors, as in docs/operating.md; returns when the tank is overdue."""
    for name, asleep_s in (("greenhouse-1", 0), ("greenhouse-2", 900), ("well", 1)):
        sensor = Sensor(name)
        if asleep_s:
            sensor.does(sensor.subscribing(f"{name}/set".encode(), qos=1))
            sensor.does(sensor.leaving(asleep_s))
    tank = Sensor("tank")
    tank.does(tank.leaving(TANK_SLEEPS_S))
    for name, count in (("greenhouse-2", 2), ("well", 1)):
        for _ in range(count):
            subprocess.run(["mosquitto_pub", "-q", "1", "-t", f"{name}/set", "-m", "1"], check=True)
    time.sleep(TANK_SLEEPS_S + 0.5)


def aside() -> None:
    """A reading that the gateway has acknowledged and the broker will refuse."""
    pump = Sensor("pump-3", is_clean=True)
    topic_id = pump.does(pump.registering("pumps/3/x"))
    pump.does(pump.publishing(topic_id, b"21.5", qos=1))
    pump.does(pump.leaving())


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
