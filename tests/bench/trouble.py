"""Runs in which something ends meanwhile: the broker for some seconds, or the gateway itself."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import BlockingClient
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
PROBE_ID, PROBE_TOPIC = "bench-known", "bench/known"


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


class KnownSensor(BlockingClient):
    """Connected before the restart, it never connects again."""

    def __init__(self, port: int) -> None:
        super().__init__(port, PROBE_ID, retry_s=PROBE_EVERY_S, timeout_s=RESTART_TIMEOUT_S)
        self.does(self.connecting(clean=False, keep_alive_s=3600))
        self._topic_id = self.does(self.registering(PROBE_TOPIC))

    def until_acknowledged(self) -> None:
        """PUBLISH at QoS 1, again and again, until PUBACK accepts it."""
        try:
            self.does(self.publishing(self._topic_id, b"here", qos=1))
        except (AssertionError, TimeoutError, ConnectionRefusedError) as error:
            raise MeasurementError(f"the known sensor is not served: {error}") from error


def restarted(gateway: GatewayProcess, output: str) -> str:
    """Kills the gateway, whose sessions the run with this output made, and starts it again."""
    with KnownSensor(gateway.port) as sensor:
        time.sleep(SAVED_LATEST_S)
        gateway.kill()
        began = time.monotonic()
        gateway.start()
        sensor.until_acknowledged()
        restart_s = time.monotonic() - began
    said = json.loads(output)
    return json.dumps({**said, "mode": "restart", "restart_s": restart_s})
