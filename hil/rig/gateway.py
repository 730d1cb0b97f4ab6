"""The gateway as its user runs it: a process of its own, with a configuration file and a log."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hil.rig.logged_process import LoggedProcess
from hil.rig.ports import free_udp_port

_CONNECTED = r"connected to broker |broker \S+ is (?:there|back)"  # as 0.1 said it


class GatewayProcess(LoggedProcess):
    """`tidegate run` in a folder of its own; UDP on a port of 127.0.0.1 that was free, the same in
    each of its runs, so that its sensors find it.
    """

    def __init__(
        self,
        folder: Path,
        broker_url: str,
        extra_config: str = "",
        *,
        prefix: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "gateway"),
    ) -> None:
        """`prefix` comes before the command, as `nsenter` does."""
        super().__init__(folder / "gateway.log")
        self.folder = folder
        self.config_path = folder / "gateway.toml"
        self._prefix = prefix
        self._command = command
        self._port = free_udp_port()
        # The first start is epoch 1, so that topic ids begin at 1 as well.
        state = folder / "state"
        if not state.exists():
            state.mkdir()
            (state / "epoch").write_text("0\n", encoding="ascii")
        self.config_path.write_text(
            "[gateway]\n"
            'name = "under-test"\n'
            f'state_dir = "{folder / "state"}"\n'
            f"[upstream]\n"
            f'url = "{broker_url}"\n'
            "reconnect_delay_s_max = 0.5\n" + _with_few_words(extra_config),
            encoding="utf-8",
        )

    def start(self, *, environment: dict[str, str] | None = None) -> None:
        run = [*self._command, "run", "--config", str(self.config_path)]
        config = self.config_path.read_text(encoding="utf-8")
        if "[[udp]]" not in config:
            run += ["--set", f"udp.0.listen=127.0.0.1:{self._port}"]
        if "[admin]" not in config:
            run += ["--set", "admin.listen="]
        self.launch([*self._prefix, *run], environment=environment)

    @property
    def port(self) -> int:
        """Where it listens for sensors, which it does once this is known."""
        return int(self.wait_for_log(r"listening for sensors on udp \S+ port (\d+)").group(1))

    def wait_until_connected(self) -> None:
        self.wait_for_log(_CONNECTED)

    @property
    def connections(self) -> int:
        """How often the broker was reached, by the log of this run."""
        return len(re.findall(_CONNECTED, self.log))


def _with_few_words(config: str) -> str:
    """Presence and statistics come at their own time, to every subscriber of `#`: only tests that
    ask for them get them.
    """
    if "[presence]" in config or "[home_assistant]" in config:
        return config
    return config.rstrip("\n") + "\n[presence]\nclients = false\nstats_s = 0\n"
