"""What is typed wrong, or is not there, is a message that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.tidegate import tidegate

NODE = ("flash", "provision", "--into", "board", "--board", "esp32", "--gateway", "10.0.0.5")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("flash",), 1, "say what the node is called: --name ID"),
        ((*NODE,), 1, "say what the node is called: --name ID"),
        ((*NODE, "--name", "x" * 24), 1, "--name: expected 1 to 23 octets"),
        ((*NODE, "--name", "x", "--topic", "a/#"), 1, "--topic: expected 3 to 40 octets without"),
        ((*NODE, "--name", "x", "--interval", "3"), 1, "--interval: this board takes 5 seconds"),
        ((*NODE, "--name", "x", "--interval", "99999"), 1, "--interval: expected 1 to 43200"),
        ((*NODE, "--name", "x", "--gateway", "h:0"), 2, "expected HOST or HOST:PORT, got 'h:0'"),
        ((*NODE, "--name", "x", "--sensor", "adc:pin"), 2, "expected KIND or KIND:KEY=VALUE"),
        ((*NODE, "--name", "x", "--wait", "soon"), 2, "expected 0 to 3600 seconds, got 'soon'"),
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
    done = tidegate(*arguments, folder=tmp_path)
    assert message in done.stderr
    assert done.returncode == code
    assert not (tmp_path / "board").exists()


def test_secrets_that_others_may_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text('{"update_key": "00"}')
    (tmp_path / "secrets").chmod(0o644)
    done = tidegate(*NODE, "--name", "x", "--secrets", "secrets", folder=tmp_path)
    assert done.returncode == 77
    assert "secrets has secrets, and others may read it:  chmod 600 secrets" in done.stderr


def test_a_password_may_come_from_the_environment(tmp_path: Path) -> None:
    done = tidegate(
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
    done = tidegate(*NODE, "--name", "x", folder=tmp_path)
    assert done.returncode == 73
    assert "cannot be written" in done.stderr


def test_options_may_stand_before_the_action_or_behind_it(tmp_path: Path) -> None:
    for arguments in (("--port", "/dev/absent", "monitor"), ("monitor", "--port", "/dev/absent")):
        done = tidegate("flash", *arguments, folder=tmp_path)
        assert "/dev/absent is not there" in done.stderr


def test_the_list_is_json_for_programs(tmp_path: Path) -> None:
    done = tidegate("flash", "list", "--json", folder=tmp_path)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["schema"] == "tidegate.flash/1"
    assert isinstance(told["found"], list)
