"""`tidegate forget` beside a real gateway."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from hil.rig.gateway import GatewayProcess
from tests.cli.tidegate import tidegate

NO_BROKER = "mqtt://127.0.0.1:1"
CONFIG = '[admin]\nlisten = "127.0.0.1:0"\npassword_file = "secret"\n'


def test_a_sensor_that_is_not_known_is_forgotten_only_where_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("tide and time\n")
    with GatewayProcess(tmp_path, NO_BROKER, CONFIG) as gateway:
        page = gateway.wait_for_log(r"status page on http://(\S+:\d+)").group(1)
        source = ("--config", gateway.config_path, "--set", f"admin.listen={page}")
        refused = tidegate("forget", "well", *source, folder=tmp_path)
        assert refused.returncode == ExitCode.FAILURE
        assert "tidegate forget: no sensor 'well' is known" in refused.stderr
        done = tidegate("forget", "well", "--retained", "--json", *source, folder=tmp_path)
        assert done.returncode == ExitCode.OK
        answer = json.loads(done.stdout)
        assert answer["schema"] == "tidegate.forget/1"
        assert answer["done"].startswith("no such sensor is known; what the broker retains")
