"""Home Assistant as a process of its own: onboarded and connected to a broker by its API.

It runs in its folder's root with this machine's network, on 127.0.0.1 and a port that was free. In
its configuration is the recorder, which writes at once, and `compile_statistics`, an integration of
the tests alone: Home Assistant makes statistics each five minutes, and a test cannot wait for that.

`let_pass` puts its wall clock forward, by libfaketime: that of the times of states, of its history
and of its statistics. Its timers and time limits have the monotonic clock, which is the real one: a
start of a minute would not fit in limits that pass faster.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError

from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.home_assistant.api import Api, eventually
from tests.home_assistant.installing import clock_library, root
from tests.support.debian_folder import entered

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 300.0
STEP_S = 1  # of a wall clock that is put forward
USER, PASSWORD = "tester", "tide and time"

CONFIGURATION = """
homeassistant:
  name: Home
  time_zone: UTC
  unit_system: metric
  latitude: 50
  longitude: 8
http:
  server_host: 127.0.0.1
  server_port: {port}
recorder:
  commit_interval: 0
history:
frontend:
logger:
  default: warning
compile_statistics:
"""
MANIFEST = """
{"domain": "compile_statistics", "name": "Compile statistics", "dependencies": ["recorder"],
 "codeowners": [], "documentation": "https://example.org", "iot_class": "calculated",
 "version": "1.0.0"}
"""
COMPILE_STATISTICS = '''
"""Statistics of the last five minutes, when asked for."""

from datetime import timedelta

from homeassistant.components.recorder import get_instance
from homeassistant.components.recorder.tasks import StatisticsTask
from homeassistant.util import dt


async def async_setup(hass, config):
    async def now(call):
        instance = get_instance(hass)
        await instance.async_block_till_done()
        instance.queue_task(StatisticsTask(dt.utcnow() - timedelta(minutes=5), False))
        await instance.async_block_till_done()

    hass.services.async_register("compile_statistics", "now", now)
    return True
'''
# What the log has of each line; what follows without it belongs to the line before.
_LINE = re.compile(
    r"^\S+ \S+ (?P<level>[A-Z]+) \([^)]*(?:\([^)]*\))?\) \[(?P<logger>[^\]]+)\]", re.MULTILINE
)
# Of MQTT and of its entities: not of packages that are missing, nor of a machine that is slow.
RELATED = re.compile(
    r"homeassistant\.(components\.(mqtt|sensor|binary_sensor|number|switch|button|select|text|event"
    r"|update)|helpers\.(entity|template|device|event)|util\.(dt|json)|core$)"
)
SLOW = ("Timed out waiting for final writes", "Updating state for", "No ACK from MQTT server")


class Home:
    """Inside the `with` it runs and has the MQTT integration; its folder is removed at the end."""

    def __init__(self, broker: Mosquitto, *, has_clock: bool = False) -> None:
        """`has_clock`: a wall clock of its own (`let_pass`)."""
        self._broker = broker
        homes = root() / "srv" / "homes"
        homes.mkdir(exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(dir=homes))
        self.log_path = self._folder / "log"
        self._log_begin = 0
        self._port = free_tcp_port()
        self.api = Api(f"http://127.0.0.1:{self._port}")
        self.tokens: dict[str, Any] = {}  # of its user, as a browser gets them
        self._running = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_clock = has_clock
        self._clock = self._folder / "clock"
        self._ahead_s = 0.0  # its wall clock, of ours

    def __enter__(self) -> Self:
        own = self._folder / "custom_components" / "compile_statistics"
        own.mkdir(parents=True)
        (own / "manifest.json").write_text(MANIFEST)
        (own / "__init__.py").write_text(COMPILE_STATISTICS)
        (own / "services.yaml").write_text("now: {}\n")
        (self._folder / "configuration.yaml").write_text(CONFIGURATION.format(port=self._port))
        self._set_clock()
        try:
            self.start()
            self._onboard()
            self._log_begin = len(self.log)  # it would set up what is not installed
            self._add_mqtt()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    # The process

    def start(self) -> None:
        """Return when it is running, with the state of all that it had before."""
        inside = f"/{self._folder.relative_to(root())}"
        with self.log_path.open("ab") as log:
            command = (*self._with_clock(), "/srv/venv/bin/hass", "--config", inside, "--skip-pip")
            self._process = self._running.enter_context(
                entered(root(), "home", command, output=log)
            )
        eventually(self._is_running, "Home Assistant runs", START_TIMEOUT_S)

    def stop(self) -> None:
        """In order, as by its own button."""
        self.api.close()
        os.kill(self.pid, signal.SIGTERM)
        assert self._process is not None
        self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        self.api.close()
        self._process = None
        self._running.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    # Its wall clock

    def let_pass(self, passing: timedelta, speed: float) -> None:
        """So much of its time, so many times as fast, in a step each second of ours."""
        end = self.now + passing
        while self.now < end:
            time.sleep(STEP_S)
            self._ahead_s += (speed - 1) * STEP_S
            self._set_clock()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time() + self._ahead_s, UTC)

    def _set_clock(self) -> None:
        new = self._clock.with_suffix(".new")
        new.write_text(f"+{self._ahead_s:.0f}\n")
        new.rename(self._clock)

    def _with_clock(self) -> tuple[str, ...]:
        """Before its command."""
        if not self._has_clock:
            return ()
        return (
            "env",
            f"LD_PRELOAD={clock_library()}",
            f"FAKETIME_TIMESTAMP_FILE=/{self._clock.relative_to(root())}",
            f"FAKETIME_CACHE_DURATION={STEP_S}",
            "DONT_FAKE_MONOTONIC=1",
            "NO_FAKE_STAT=1",
        )

    @property
    def pid(self) -> int:
        """Of Home Assistant itself; the process that was started waits for it."""
        assert self._process is not None
        own = self._process.pid
        return int(Path(f"/proc/{own}/task/{own}/children").read_text().split()[0])

    def _is_running(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log[-2000:]
        try:
            if not self.api.token:
                return self.api.http("/api/onboarding") is not None
            return bool(self.api.http("/api/config")["state"] == "RUNNING")
        except (URLError, ConnectionError):
            return False

    # By its API

    def _onboard(self) -> None:
        api = self.api
        person = {"name": USER, "username": USER, "password": PASSWORD, "language": "en"}
        here = f"{api.url}/"
        code = api.http("/api/onboarding/users", {"client_id": here, **person})["auth_code"]
        wanted = {"grant_type": "authorization_code", "code": code, "client_id": here}
        self.tokens = api.http("/auth/token", wanted, form=True)
        api.token = self.tokens["access_token"]
        api.http("/api/onboarding/core_config", {})
        api.http("/api/onboarding/analytics", {})
        api.http("/api/onboarding/integration", {"client_id": here, "redirect_uri": here})
        api.token = api.ask("auth/long_lived_access_token", client_name="tests", lifespan=30)
        api.close()

    def _add_mqtt(self) -> None:
        flows = "/api/config/config_entries/flow"
        flow = self.api.http(flows, {"handler": "mqtt"})
        given = {"broker": "127.0.0.1", "port": self._broker.port}
        done = self.api.http(f"{flows}/{flow['flow_id']}", given)
        assert done["type"] == "create_entry", done

    # The log

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def complaints(self) -> list[str]:
        """Warnings and errors since the last call that have to do with MQTT or its entities."""
        return [
            line
            for logger, line in self._warnings()
            if (RELATED.match(logger) or "components/mqtt/" in line)
            and not any(one in line for one in SLOW)
        ]

    def all_complaints(self) -> list[str]:
        """Warnings and errors of any kind since the last call."""
        return [line for _, line in self._warnings()]

    def _warnings(self) -> Iterator[tuple[str, str]]:
        """With their loggers, once; an error has its traceback."""
        log = self.log
        text, self._log_begin = log[self._log_begin :], len(log)
        found = list(_LINE.finditer(text))
        ends = [*(each.start() for each in found[1:]), len(text)][: len(found)]
        for each, end in zip(found, ends, strict=True):
            if each["level"] in ("WARNING", "ERROR", "CRITICAL"):
                yield each["logger"], text[each.start() : end].strip()
