"""What is typed wrong, or is not there, is a message that says what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gateway.flashing.errors import FlashError
from gateway.flashing.kinds import read_kinds
from gateway.flashing.sources import firmware_folder
from tests.cli.tidegate import tidegate_here

FOLDER = ("flash", "provision", "--into", "board")
ESP32 = (*FOLDER, "--board", "esp32", "--name", "x", "--gateway", "10.0.0.5")
PICO = (*FOLDER, "--board", "pico", "--name", "x", "--uart", "0")
NODE = (*FOLDER, "--board", "esp32", "--gateway", "10.0.0.5", "--no-wifi")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("flash",), 1, "say what the node is called: --name ID"),
        ((*NODE,), 1, "say what the node is called: --name ID"),
        ((*NODE, "--name", "x" * 24), 1, "--name: expected 1 to 23 bytes"),
        ((*NODE, "--name", "x", "--topic", "a/#"), 1, "--topic: expected 3 to 40 bytes without"),
        ((*NODE, "--name", "x", "--interval", "3"), 1, "--interval: this board takes 5 seconds"),
        (
            (*NODE, "--name", "x", "--interval", "99999"),
            2,
            "expected a whole number from 1 to 43200",
        ),
        ((*NODE, "--name", "x", "--gateway", "h:0"), 2, "expected a port from 1 to 65535, got '0'"),
        ((*NODE, "--name", "x", "--sensor", "adc:pin"), 2, "expected KIND or KIND:KEY=VALUE"),
        (
            (*NODE, "--name", "x", "--wait", "soon"),
            2,
            "expected a whole number from 0 to 3600, got 'soon'",
        ),
        ((*NODE, "--name", "x", "--wifi", "W"), 1, "--wifi-password-file, or TIDEGATE_WIFI_PASS"),
        ((*NODE, "--name", "x", "--settings", "absent"), 69, "absent cannot be read: No such file"),
        ((*NODE, "--name", "x", "--settings", "broken"), 1, "broken is no JSON: line 1"),
        ((*NODE, "--name", "x", "--settings", "list"), 1, "list: expected an object"),
        ((*NODE, "--name", "x", "--program", "absent"), 69, "absent: there is no such folder"),
        (
            ("flash", "provision", "--into", "b", "--name", "x"),
            1,
            "say for which board, with --board",
        ),
        (("flash", "list", "--boards", "absent"), 69, "absent has no descriptions of boards"),
        (("flash", "monitor", "--port", "/dev/absent"), 69, "/dev/absent is not there"),
        (("flash", "monitor", "--port", "/dev/null"), 69, "/dev/null is no serial port"),
        (("flash", "install", "--board", "picow"), 1, "no board 'picow'; did you mean pico-w?"),
        ((*NODE, "--name", "x", "--set", "udp.0.port=1"), 1, "configuration is wrong:\ncommand"),
        (("flash", "test"), 69, "no board is plugged in"),
    ],
)
def test_a_mistake_is_a_message(
    tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "broken").write_text('{"password": hunter2}')
    (tmp_path / "list").write_text("[]")
    done = tidegate_here(*arguments, folder=tmp_path)
    assert message in done.stderr
    assert done.returncode == code
    assert not (tmp_path / "board").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*NODE, "--sensor", "bme208"), "no sensor 'bme208', did you mean bme280?"),
        ((*NODE, "--sensor", "foo:pin=99"), "no sensor 'foo'; there are adc, bme280, ds18b20"),
        ((*NODE, "--sensor", "adc:pin=99"), "adc: this board has no pin 99; it has 0 to 23, 25 to"),
        ((*NODE, "--sensor", "adc:pin=22"), "adc: pin 22 cannot measure a voltage: 0, 2, 4"),
        ((*NODE, "--sensor", "ds18b20:pin=34"), "ds18b20: pin 34 is for input only"),
        ((*NODE, "--sensor", "bme280:scl=22,sda=28"), "bme280: this board has no pin 28"),
        ((*NODE, "--sensor", "bme280:scl=22,sda=22"), "bme280: scl and sda are both pin 22"),
        ((*NODE, "--sensor", "bme280:scl=22"), "bme280: sda is missing"),
        ((*NODE, "--sensor", "adc:pni=34"), "adc: pin is missing; adc: unknown: pni, did you mean"),
        ((*NODE, "--sensor", "adc:pin=34,tines=2"), "adc: unknown: tines, did you mean times?"),
        ((*NODE, "--sensor", "ds18b20:pin=4,bits=13"), "ds18b20: bits: 9 to 12"),
        ((*NODE, "--sensor", "simulated:step=x"), "simulated: one of step='x' is of a kind"),
        ((*NODE, "--settings", "interval"), "unknown: intervall_s, did you mean interval_s?"),
        ((*NODE, "--settings", "range"), "retry_ms: 50 to 15000"),
        ((*NODE, "--settings", "port"), 'gateways: [["host", 1 to 65535]]'),
        ((*NODE, "--secrets", "key"), "update_key: at least 32 hexadecimal digits"),
        ((*NODE, "--uart", "3"), "uart: 0 to 2, not 3"),
        ((*PICO, "--sensor", "adc:pin=4"), "adc: pin 4 cannot measure a voltage: 26 to 29 can"),
        ((*PICO, "--uart", "2"), "uart: 0 to 1, not 2"),
        ((*PICO, "--wifi", "W"), "this board has no network: leave --wifi and --gateway out"),
        ((*PICO, "--gateway", "h"), "this board has no network: leave --wifi and --gateway out"),
        (ESP32, "say which wireless network this board joins: --wifi SSID; or --no-wifi"),
        ((*ESP32, "--board", "pico-w"), "say which wireless network this board joins: --wifi"),
        ((*ESP32, "--wifi", "W" * 33), "--wifi: expected 1 to 32 bytes"),
        (
            (*FOLDER, "--board", "microbit", "--name", "x", "--sensor", "temprature"),
            "this board has one of temperature, simulated, pin0, pin1, pin2, did you mean temp",
        ),
    ],
)
def test_what_the_node_would_refuse_is_refused_before_it_is_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    for name, text in (
        ("interval", '{"intervall_s": 60}'),
        ("range", '{"retry_ms": 1}'),
        ("port", '{"gateways": [["h", 70000]]}'),
        ("key", '{"update_key": "00"}'),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    done = tidegate_here(
        *arguments, "--name", "x", folder=tmp_path, environment={"TIDEGATE_WIFI_PASSWORD": "p"}
    )
    assert message in done.stderr
    assert done.returncode == 1
    assert not (tmp_path / "board").exists()


def test_what_a_board_of_ones_own_has_is_not_known_and_not_refused(tmp_path: Path) -> None:
    text = (firmware_folder() / "boards" / "esp32.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("wifi", "uarts", "[pins]"))]
    kept = [line for line in lines if not line.startswith(("all", "analog", "input_only"))]
    (tmp_path / "boards").mkdir()
    (tmp_path / "boards" / "mine.toml").write_text("\n".join(kept))
    sensors = ("--sensor", "adc:pin=99", "--sensor", "drivers.rain:whatever=1")
    mine = (*FOLDER, "--board", "mine", "--boards", "boards", "--gateway", "h", "--name", "x")
    done = tidegate_here(*mine, *sensors, folder=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("pins", ['all = "0-x"', 'all = "9-3"', "all = 3", 'analog = "0-999"'])
def test_pins_of_a_board_are_numbers_and_ranges(tmp_path: Path, pins: str) -> None:
    text = (firmware_folder() / "boards" / "pico.toml").read_text()
    (tmp_path / "mine.toml").write_text(re.sub(r"\[pins\][^\[]*", f"[pins]\n{pins}\n", text))
    with pytest.raises(FlashError, match=r'pins\..*: expected numbers to 255, as "0-22, 26", got'):
        read_kinds(tmp_path)


def test_secrets_that_others_may_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text('{"update_key": "00"}')
    (tmp_path / "secrets").chmod(0o644)
    done = tidegate_here(*NODE, "--name", "x", "--secrets", "secrets", folder=tmp_path)
    assert done.returncode == 77
    assert "secrets has secrets, and others may read it:  chmod 600 secrets" in done.stderr


def test_a_password_may_come_from_the_environment(tmp_path: Path) -> None:
    done = tidegate_here(
        *NODE,
        "--name",
        "x",
        "--wifi",
        "W",
        folder=tmp_path,
        environment={"TIDEGATE_WIFI_PASSWORD": "hunter2"},
    )
    assert done.returncode == 0, done.stderr
    secrets = json.loads((tmp_path / "board" / "secrets.json").read_text())
    assert secrets == {"ssid": "W", "password": "hunter2"}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "board").write_text("a file")
    done = tidegate_here(*NODE, "--name", "x", folder=tmp_path)
    assert done.returncode == 73
    assert "cannot be written" in done.stderr


def test_options_may_stand_before_the_action_or_behind_it(tmp_path: Path) -> None:
    for arguments in (("--port", "/dev/absent", "monitor"), ("monitor", "--port", "/dev/absent")):
        done = tidegate_here("flash", *arguments, folder=tmp_path)
        assert "/dev/absent is not there" in done.stderr


def test_the_list_is_json_for_programs(tmp_path: Path) -> None:
    done = tidegate_here("flash", "list", "--json", folder=tmp_path)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["schema"] == "tidegate.flash/1"
    assert isinstance(told["found"], list)
