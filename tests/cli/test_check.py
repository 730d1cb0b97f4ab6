"""`tidegate check`: 0 and ok, or 78 and everything that is wrong."""

import argparse
import json
from pathlib import Path

import pytest

from gateway.cli.check import run
from gateway.config import load
from gateway.config.settings import host_name
from tests.cli.tidegate import tidegate, tidegate_here

WRONG = '[gateway]\nid = 300\n[log]\nlevl = "debug"\n'
WRONG_LINES = [
    "c.toml:2:6: gateway.id: expected a whole number from 0 to 255, got 300",
    "c.toml:4:1: log.levl: unknown key, did you mean log.level?",
]


def test_a_right_file_is_ok(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[gateway]\nid = 3\n")
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_a_wrong_file_is_refused_with_every_mistake_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(WRONG)
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines() == WRONG_LINES


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == "c.toml: cannot be read: No such file or directory\n"


def test_warnings_are_listed_and_do_not_refuse(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[upstream]\ntopic_prefix = "site"\n')
    done = tidegate_here("check", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert done.stderr.startswith("warning: c.toml:2:16: upstream.topic_prefix: has no slash")


def test_variables_count_as_they_would_for_run(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    done = tidegate_here(
        "check", "c.toml", folder=tmp_path, environment={"TIDEGATE_GATEWAY__ID": "x"}
    )
    assert done.returncode == 78
    assert done.stderr.startswith("environment TIDEGATE_GATEWAY__ID: gateway.id: expected")


def test_show_lists_what_is_in_force_as_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[gateway]\nid = 3\n")
    done = tidegate_here("check", "--show", "c.toml", folder=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[:2] == ["[gateway]", "id = 3".ljust(44) + "# c.toml:2:6"]
    assert lines[-1] == "# ok"
    assert "# ca_file is not set" in lines
    listing = tmp_path / "listing.toml"
    listing.write_text(done.stdout)
    assert load(listing, environment={}, overrides=()).settings.gateway.id == 3


def test_a_name_that_the_terminal_cannot_show_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('gateway.name = "Gewächshaus"\n')
    for arguments in (("--show",), ("--show", "--json")):
        environment = {"PYTHONIOENCODING": "ascii"}
        done = tidegate("check", "c.toml", *arguments, folder=tmp_path, environment=environment)
        assert done.returncode == 0
        assert "Gew\\" in done.stdout


def test_json_tells_mistakes_to_a_program(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(WRONG)
    environment = {"TIDEGATE_LOG__FORMAT": "xml"}
    done = tidegate_here("check", "c.toml", "--json", folder=tmp_path, environment=environment)
    assert (done.returncode, done.stderr) == (78, "")
    answer = json.loads(done.stdout)
    assert (answer["schema"], answer["ok"]) == ("tidegate.check/1", False)
    assert answer["problems"][0] == {
        "source": "c.toml",
        "line": 2,
        "column": 6,
        "key": "gateway.id",
        "message": "expected a whole number from 0 to 255, got 300",
    }
    assert answer["problems"][2]["source"] == "environment TIDEGATE_LOG__FORMAT"
    assert answer["problems"][2]["line"] is None


def test_json_tells_settings_and_warnings_to_a_program(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[journal]\nsize_max = "512KiB"\n[upstream]\ntopic_prefix = "site"\n'
    )
    answer = json.loads(tidegate_here("check", "c.toml", "--json", folder=tmp_path).stdout)
    assert answer["ok"]
    assert len(answer["warnings"]) == 1
    assert "settings" not in answer
    done = tidegate_here("check", "c.toml", "--json", "--show", folder=tmp_path)
    shown = json.loads(done.stdout)["settings"]
    assert shown["journal.size_max"] == {"value": 2**19, "origin": "c.toml:2:12"}
    assert shown["upstream.url"] == {"value": "mqtt://127.0.0.1:1883", "origin": "default"}
    assert shown["upstream.username"] == {"value": None, "origin": "default"}
    assert shown["udp.0.listen"] == {"value": "0.0.0.0:1883", "origin": "default"}
    assert shown["gateway.name"] == {"value": host_name(), "origin": "default"}


def test_the_file_is_named_as_for_other_verbs_too(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[gateway]\nid = 3\n")
    done = tidegate("check", "--config", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    done = tidegate("check", "c.toml", "--config", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --config: not allowed with argument FILE" in done.stderr


def test_without_a_file_it_is_that_of_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unnamed = argparse.Namespace(file=None, config=None, json=False, show=False)
    assert run(unnamed, tmp_path / "c.toml") == 2
    missing = f"which file? There is no {tmp_path / 'c.toml'}: `tidegate check FILE`\n"
    assert capsys.readouterr().err == missing
    (tmp_path / "c.toml").write_text("[gateway]\nid = 3\n")
    assert run(unnamed, tmp_path / "c.toml") == 0


def test_what_others_call_otherwise_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[upstream]\nhost = "10.0.0.5"\nport = 1883\n[mqtt]\na = 1\n')
    done = tidegate("check", "c.toml", folder=tmp_path)
    by_url = 'unknown key, host, port and TLS are in upstream.url, as "mqtt://HOST:1883" or '
    by_url += '"mqtts://HOST:8883"'
    assert done.stderr.splitlines() == [
        f"c.toml:2:1: upstream.host: {by_url}",
        f"c.toml:3:1: upstream.port: {by_url}",
        'c.toml:4:2: mqtt: unknown key, the broker is in [upstream], as url = "mqtt://HOST:1883"',
    ]
