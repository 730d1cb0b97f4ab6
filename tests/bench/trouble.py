"""Runs in which something ends meanwhile: the broker for some seconds, or the gateway itself."""

import json
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from tests.bench.gateway_process import GatewayProcess
from tests.bench.measurement import MeasurementError

# Of traffic before the broker goes, and after it is back.
HEALTHY_S = 1.0
AFTERWARDS_S = 2.0
# Retransmission by the probe: also while nobody listens yet.
PROBE_EVERY_S = 0.002
RESTART_TIMEOUT_S = 60.0
# What promises nothing to anybody is written a quarter of a second after it changed.
SAVED_LATEST_S = 1.0
PROBE_ID, PROBE_TOPIC = b"bench-known", b"bench/known"


def through_an_outage(
    executable: Path, arguments: Sequence[str], broker: Mosquitto, away_s: float, timeout_s: float
) -> str:
    """What the generator said; the broker ends in order and keeps its sessions."""
    seconds = HEALTHY_S + away_s + AFTERWARDS_S
    generator = subprocess.Popen(
        [str(executable), *arguments, "--broker-returns", "--seconds", f"{seconds:g}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert generator.stderr is not None
        began = generator.stderr.readline()
        if began == "running\n":
            time.sleep(HEALTHY_S)
            broker.stop()
            time.sleep(away_s)
            broker.start()
        output, said = generator.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"the load generator did not end in {timeout_s:.0f} s") from error
    finally:
        generator.kill()
        generator.wait()
    if generator.returncode != 0:
        raise MeasurementError((began + said).strip() or f"exit code {generator.returncode}")
    return output


class KnownSensor:
    """Connected before the restart, it never connects again."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._socket.settimeout(PROBE_EVERY_S)
        # CONNECT without clean session, keep-alive an hour; REGISTER (5.4.4, 5.4.10).
        self._ask(b"\x04\x00\x01\x0e\x10" + PROBE_ID, b"\x05\x00")
        self._topic_id = self._ask(b"\x0a\x00\x00\x00\x01" + PROBE_TOPIC, b"\x0b")[1:3]

    def close(self) -> None:
        self._socket.close()

    def until_acknowledged(self) -> None:
        """PUBLISH at QoS 1, again and again, until PUBACK accepts it (5.4.12, 5.4.13)."""
        flags = b"\xa0"
        self._ask(
            b"\x0c" + flags + self._topic_id + b"\x00\x02" + b"here",
            b"\x0d" + self._topic_id + b"\x00\x02\x00",
        )

    def _ask(self, body: bytes, answer: bytes) -> bytes:
        frame = bytes((len(body) + 1,)) + body
        deadline = time.monotonic() + RESTART_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                self._socket.send(frame)
                heard = self._socket.recv(256)[1:]
            except TimeoutError:
                continue
            except ConnectionRefusedError:
                time.sleep(PROBE_EVERY_S)
                continue
            if heard.startswith(answer):
                return heard
            if heard == b"\x18":
                raise MeasurementError("the gateway does not know its sensor any more")
        raise MeasurementError(f"no {answer.hex(' ')} in {RESTART_TIMEOUT_S:.0f} s")


def restarted(gateway: GatewayProcess, output: str) -> str:
    """Kills the gateway, whose sessions the run with this output made, and starts it again."""
    sensor = KnownSensor(gateway.port)
    try:
        time.sleep(SAVED_LATEST_S)
        gateway.kill()
        began = time.monotonic()
        gateway.start()
        sensor.until_acknowledged()
        restart_s = time.monotonic() - began
    finally:
        sensor.close()
    said = json.loads(output)
    return json.dumps({**said, "mode": "restart", "restart_s": restart_s})
