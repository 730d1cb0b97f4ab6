"""A number that is out of its range is answered with the range, wherever it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.tidegate import environment_with, tidegate_here

PORTS = "a port from 1 to 65535"
NODE = ("flash", "--name", "x", "--board", "esp32", "--into", "b")


@pytest.mark.parametrize(
    "line",
    [
        'admin.listen="127.0.0.1:70000"',
        'admin.listen="[::1]:123456"',
        'upstream.url="mqtt://10.0.0.5:70000"',
        'upstream.url="mqtts://10.0.0.5:700000000"',
        'upstream.url="mqtt://10.0.0.5:0"',
        'udp=[{listen="0.0.0.0:65536"}]',
        'udp=[{multicast="225.1.1.1:70000"}]',
        'udp=[{multicast="225.1.1.1:0"}]',
        'serial=[{port="socket://10.0.0.7:70000"}]',
        'serial=[{port="rfc2217://10.0.0.7:0"}]',
    ],
)
def test_a_port_in_a_file(line: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"{line}\n")
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert done.returncode == 78
    assert PORTS in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [("ADMIN__LISTEN", "127.0.0.1:70000"), ("UPSTREAM__URL", "mqtt://h:70000")],
)
def test_a_port_in_the_environment(variable: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    environment = {f"TIDEGATE_{variable}": value}
    done = tidegate_here("check", "c.toml", folder=tmp_path, environment=environment)
    assert done.returncode == 78
    assert PORTS in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("status", "--set", "admin.listen=127.0.0.1:70000"), 78, PORTS),
        (("simulate", "--gateway", "10.0.0.5:70000"), 2, PORTS),
        (("simulate", "--gateway", "[::1]:0"), 2, PORTS),
        ((*NODE, "--gateway", "10.0.0.5:70000"), 2, PORTS),
        ((*NODE, "--interval", "99999"), 2, "from 1 to 43200"),
        ((*NODE, "--interval", "-1"), 2, "from 1 to 43200"),
        ((*NODE, "--wait", "9999"), 2, "from 0 to 3600"),
        ((*NODE, "--uart", "77"), 2, "from 0 to 9"),
        ((*NODE, "--count", "0"), 2, "from 1 to 1000000"),
        (("demo", "--seconds", "0"), 2, "more than 0 and up to 86400"),
        (("demo", "--sensors", "201"), 2, "from 1 to 200"),
        (("simulate", "--sensors", "0"), 2, "from 1 to 25000"),
        (("clients", "--limit", "0"), 2, "from 1 to "),
        (("buffer", "peek", "-n", "0"), 2, "from 1 to 10000"),
        (("doctor", "--baud", "1"), 2, "from 50 to 4000000"),
        (("doctor", "--syncs", "0"), 2, "from "),
        (("check", "x", "--set", "limits.clients_max=0"), 2, ""),
    ],
)
def test_a_number_on_the_command_line(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    done = tidegate_here(*arguments, folder=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("hil", ("--broker", "h:70000"), PORTS),
        ("hil", ("--jobs", "0"), "1 to 100"),
        ("firmware.ota_server", ("--broker", "h:70000"), "from 1 to 65535"),
        ("firmware.image", ("--number", "0"), "from 1 to 4294967295"),
        ("spark_ingest", ("check", "--config", "ingest.toml"), PORTS),
        ("spark_ingest", ("collect", "--until-idle", "0"), "up to 86400"),
        ("spark_ingest", ("compact", "--vacuum-after", "9999999"), "0 to 1000000"),
    ],
)
def test_a_number_of_another_program(
    module: str, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "ingest.toml").write_text('[broker]\nurl = "mqtt://h:70000"\n')
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=tmp_path,
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode != 0
    assert message in done.stderr + done.stdout
