"""`tidegate access`: explained from a configuration, and imported from mosquitto's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.app.core_options import access_rules
from gateway.app.exit_codes import ExitCode
from gateway.cli.access.mosquitto import rules_of
from gateway.config import Settings, load
from gateway.core.access.rules import PUBLISH, RECEIVE, SUBSCRIBE
from tests.cli.tidegate import tidegate

CONFIG = """
[[access]]
topics = ["alarm/#"]
actions = ["publish"]
allow = false

[[access]]
topics = ["sensors/{client}/#"]
clients = ["tank-*"]
qos_max = 1
retain = false
payload_bytes_max = 64
"""
ACL = """
# of all
topic read commands/#
topic deny commands/secret

user tank
topic sensors/tank/#
topic write alarm/+

pattern readwrite nodes/%c/#
"""


def read(path: Path) -> Settings:
    return load(path, environment={}, overrides=()).settings


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (
            ["tank-1", "publish", "sensors/tank-1/t"],
            ExitCode.OK,
            "allowed: access.1 decides (tank-*: sensors/{client}/#); QoS 1 at most, not retained, "
            "64 bytes at most",
        ),
        (["tank-1", "publish", "alarm/x"], ExitCode.FAILURE, "forbidden: access.0 decides"),
        (
            ["well", "subscribe", "#"],
            ExitCode.FAILURE,
            "no entry fits, and security.access_default",
        ),
        (["tank", "publish"], ExitCode.USAGE, "publish needs a topic"),
        (["tank", "connect", "x"], ExitCode.USAGE, "connect has no topic"),
        (["tank", "connect"], ExitCode.OK, "allowed: there are no [[binding]] entries"),
        (["well", "fly", "x"], ExitCode.USAGE, "invalid choice: 'fly'"),
    ],
)
def test_it_says_which_entry_decides(
    tmp_path: Path, asked: list[str], code: ExitCode, words: str
) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    done = tidegate("access", "explain", *asked, "--config", "c.toml", folder=tmp_path)
    assert done.returncode == code
    assert words in done.stdout + done.stderr


BINDINGS = """
[[binding]]
identities = ["psk:*"]
clients = ["tank-{identity}"]
[[binding]]
identities = ["serial:serial0"]
clients = ["well", "well-*"]
"""


@pytest.mark.parametrize(
    ("client", "identity", "binding", "words"),
    [
        ("tank-1", "psk:1", 0, "allowed: binding.0 decides (psk:*: tank-{identity})"),
        ("tank-1", "psk:2", 0, "forbidden: binding.0 decides (psk:*: tank-{identity})"),
        (
            "well-2",
            "serial:serial0",
            1,
            "allowed: binding.1 decides (serial:serial0: well, ",
        ),
        ("well", "anonymous@udp0", 1, "forbidden: binding.1 decides"),
        ("other", "anonymous@udp0", None, "allowed: no entry of [[binding]] has this client id"),
    ],
)
def test_it_says_which_binding_decides_for_connect(
    tmp_path: Path, client: str, identity: str, binding: int | None, words: str
) -> None:
    (tmp_path / "c.toml").write_text(BINDINGS)
    asked = ("access", "explain", client, "connect", "--identity", identity, "--config", "c.toml")
    done = tidegate(*asked, folder=tmp_path)
    is_allowed = words.startswith("allowed")
    assert words in done.stdout
    assert done.returncode == (ExitCode.OK if is_allowed else ExitCode.FAILURE)
    assert json.loads(tidegate(*asked, "--json", folder=tmp_path).stdout) == {
        "schema": "tidegate.access/1",
        "allowed": is_allowed,
        "binding": binding,
        "client": client,
        "identity": identity,
    }


def test_without_entries_all_may_do_all(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("")
    source = ("--config", "c.toml", "--json")
    done = tidegate("access", "explain", "tank", "will", "x/y", *source, folder=tmp_path)
    assert json.loads(done.stdout) == {
        "schema": "tidegate.access/1",
        "allowed": True,
        "rule": None,
        "client": "tank",
        "topic": "x/y",
    }


def test_what_mosquitto_allows_is_allowed_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text(ACL)
    done = tidegate("access", "import", "acl", folder=tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    (tmp_path / "c.toml").write_text(done.stdout)
    rules = access_rules(read(tmp_path / "c.toml"))
    assert rules is not None

    def may(client: str, action: str, topic: str) -> bool:
        actions = {"publish": PUBLISH, "receive": RECEIVE, "subscribe": SUBSCRIBE}
        return rules.verdict(client, "anonymous@udp0", actions[action], topic).is_allowed

    assert may("well", "receive", "commands/all")
    assert not may("well", "publish", "commands/all")
    assert not may("well", "receive", "commands/secret")
    assert may("tank", "publish", "sensors/tank/a/b")
    assert may("tank", "publish", "alarm/x")
    assert not may("tank", "receive", "alarm/x")
    assert not may("well", "publish", "sensors/tank/a")
    assert may("well", "subscribe", "nodes/well/#")
    assert not may("well", "subscribe", "nodes/#")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topic a#", "expected a topic filter, got 'a#'"),
        ("topic", "expected a topic filter, got ''"),
        ("allow all", "expected user, topic or pattern, got 'allow'"),
        ("user a*\ntopic b", "a client id with * cannot be a rule's: 'a*'"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "acl").write_text(f"{text}\n")
    done = tidegate("access", "import", "acl", folder=tmp_path)
    assert done.returncode == ExitCode.FAILURE
    assert f"acl:{text.count(chr(10)) + 1}: {problem}" in done.stderr


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    done = tidegate("access", "import", "nothing", folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.FAILURE, "")
    assert "nothing: No such file" in done.stderr


def test_names_with_spaces_and_quotes_stay_whole(tmp_path: Path) -> None:
    imported = rules_of('user the "tank"\ntopic read a b/c\n')
    (tmp_path / "c.toml").write_text(imported.toml("acl"))
    (rule,) = read(tmp_path / "c.toml").access
    assert (rule.clients, rule.topics) == (('the "tank"',), ("a b/c",))
