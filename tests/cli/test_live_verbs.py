"""`tidegate status`, `clients` and `topics` beside a real gateway with sensors in every state."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.topics import show_all as show_topics
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Regack,
    Register,
    Suback,
    Subscribe,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
    decode,
    encode,
)
from hil.rig.gateway import GatewayProcess
from hil.rig.ports import free_port
from tests.cli.tidegate import tidegate
from tests.support.waiting import POLL_INTERVAL_S

NOBODY = "mqtt://127.0.0.1:1"
DEADLINE_S = 20.0
CONFIG = """
[admin]
listen = "127.0.0.1:{admin}"
[predefined_topics]
"sensors/boot" = 7
[clients."pump-1".predefined_topics]
"pumps/one" = 9
"""


@contextmanager
def sensor(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.settimeout(DEADLINE_S)
        opened.connect(("127.0.0.1", port))
        yield opened


def ask(opened: socket.socket, frame: Frame, answer: type[Frame]) -> None:
    opened.send(encode(frame))
    found = decode(opened.recv(1000))
    assert isinstance(found, answer), found


def verb(gateway: GatewayProcess, *arguments: str) -> str:
    done = tidegate(
        arguments[0], "--config", gateway.config_path, *arguments[1:], folder=gateway.folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def client_of(gateway: GatewayProcess, client_id: str) -> Any:
    (client,) = json.loads(verb(gateway, "clients", client_id, "--json"))["clients"]
    return client


def until(gateway: GatewayProcess, client_id: str, **wanted: object) -> Any:
    """The client, as soon as it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        client = client_of(gateway, client_id)
        if all(client[name] == value for name, value in wanted.items()):
            return client
        time.sleep(POLL_INTERVAL_S)
    raise AssertionError(f"{client_id} is not {wanted} but {client}")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """With its broker away, so that subscriptions are taken on at once."""
    config = CONFIG.format(admin=free_port(socket.SOCK_STREAM))
    with GatewayProcess(tmp_path, NOBODY, config) as running:
        yield running


def test_sleepers_are_shown_asleep_until_overdue_and_lost(gateway: GatewayProcess) -> None:
    with sensor(gateway.port) as opened:
        ask(opened, Connect(b"pump-1", 60, will=True), WillTopicReq)
        ask(opened, WillTopic(b"gone/pump-1", 1, retain=True), WillMsgReq)
        ask(opened, WillMsg(b"secret"), Connack)
        ask(opened, Register(0, 1, b"pump/1"), Regack)
        ask(opened, Subscribe(2, b"pump/1/set", 1), Suback)
        assert client_of(gateway, "pump-1")["state"] == "active"
        ask(opened, Disconnect(3600), Disconnect)
        asleep = until(gateway, "pump-1", state="asleep")
        assert asleep["asleep_until"] == pytest.approx(time.time() + 3600, abs=DEADLINE_S)
        assert asleep["will"] == {"topic": "gone/pump-1", "qos": 1, "retain": True}
        shown = verb(gateway, "clients", "pump-1")
        assert "secret" not in shown
        for part in ("asleep until ", "3600 s, as it said last", "gone/pump-1, QoS 1, retained"):
            assert part in shown
        assert [line.split() for line in shown.splitlines() if line.startswith("      ")] == [
            ["1", "pump/1"],
            ["2", "pump/1/set"],
            ["7", "sensors/boot"],
            ["9", "pumps/one"],
            ["1", "pump/1/set"],
        ]
        ask(opened, Disconnect(12), Disconnect)  # overdue for six seconds after these
        until(gateway, "pump-1", state="asleep", overdue=True)
        assert "asleep, overdue by " in verb(gateway, "clients", "--overdue")
        assert "1 of these overdue" in verb(gateway, "status")
        until(gateway, "pump-1", state="lost", overdue=False)
        assert re.search(r"lost \d+ s ago", verb(gateway, "clients", "--state", "lost"))
        status = verb(gateway, "status")
    assert "clients     1 lost\n" in status
    assert "alarms      the broker is away: " in status
    assert "`tidegate clients --state lost` says which" in status


def test_a_gateway_that_is_new_has_no_sensors_yet(gateway: GatewayProcess) -> None:
    gateway.wait_for_log("status page on")
    assert verb(gateway, "clients") == "under-test: no sensor has connected\n"
    assert verb(gateway, "topics", "--prefix", "x") == "under-test: no such topics\n"


def test_without_any_topic_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert show_topics({"gateway": "g", "topics": []}, is_filtered=False) == 0
    assert capsys.readouterr().out == "g: no sensor has a topic\n"


def test_long_lists_end_with_how_many_more_there_are(gateway: GatewayProcess) -> None:
    for number in range(5):
        with sensor(gateway.port) as opened:
            ask(opened, Connect(b"pump-%d" % number, 60), Connack)
            ask(opened, Register(0, 1, b"pump/%d" % number), Regack)
    lines = verb(gateway, "clients", "--limit", "2").splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["client", "pump-0", "pump-1"]
    assert lines[3] == "and 3 more: --after 'pump-1' goes on, --limit shows more"
    rest = verb(gateway, "clients", "--after", "pump-3").splitlines()
    assert [line.split()[0] for line in rest] == ["client", "pump-4"]
    assert verb(gateway, "clients", "--state", "asleep") == "under-test: no such clients\n"
    lines = verb(gateway, "topics", "--limit", "2").splitlines()
    assert lines[1].split() == ["pump/0", "-", "pump-0", "(1)", "-", "-", "-"]
    assert lines[3].startswith("and 5 more: --after 'pump/1' goes on")


def test_topics_are_shown_with_those_who_have_them(gateway: GatewayProcess) -> None:
    with sensor(gateway.port) as opened:
        ask(opened, Connect(b"pump-1", 60), Connack)
        ask(opened, Register(0, 1, b"pump/1"), Regack)
        ask(opened, Subscribe(2, b"cmd/#", 1), Suback)
        rows = {line.split()[0]: line.split()[1:] for line in verb(gateway, "topics").splitlines()}
        assert rows["sensors/boot"] == ["7", "-", "-", "-", "-"]
        assert rows["pumps/one"] == ["pump-1", "(9)", "-", "-", "-", "-"]
        assert rows["pump/1"] == ["-", "pump-1", "(1)", "-", "-", "-"]
        assert rows["cmd/#"] == ["-", "-", "pump-1", "(1)", "QoS", "1", "-"]
        one = verb(gateway, "topics", "cmd/#")
        (topic,) = json.loads(verb(gateway, "topics", "--json", "cmd/#"))["topics"]
    assert "subscribed by, with QoS\n      1  pump-1\n" in one
    assert topic["subscribed_by"] == {"count": 1, "clients": [{"id": "pump-1", "qos": 1}]}


def test_who_is_not_known_is_a_failure(gateway: GatewayProcess) -> None:
    assert gateway.port
    for name, said in (
        ("clients", "under-test knows no client 'nobody'"),
        ("topics", "under-test knows no topic or filter 'nobody'"),
    ):
        done = tidegate(name, "--config", gateway.config_path, "nobody", folder=gateway.folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr


@pytest.mark.parametrize("name", ["status", "clients", "topics"])
def test_without_a_gateway_it_says_so_and_what_to_do(name: str, tmp_path: Path) -> None:
    admin = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    done = tidegate(name, "--set", f"admin.listen={admin}", folder=tmp_path)
    assert (done.returncode, done.stdout) == (69, "")
    assert f"tidegate {name}: no gateway answers at http://127.0.0.1:" in done.stderr
    assert "start one with `tidegate run`" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["clients", "--state", "tired"], 2, "invalid choice: 'tired'"),
        (["clients", "--limit", "0"], 2, "'0' is not a whole number from 1 to 1000"),
        (["clients", "--overdue", "--state", "lost"], 2, "not allowed with argument"),
        (["topics", "--limit", "²"], 2, "is not a whole number"),
        (["status", "--set", "admin.lisen=1"], 78, "admin.listen"),
        (["status", "--set", "admin.listen="], 69, "admin.listen names no port to ask"),
    ],
)
def test_a_mistake_is_said(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    done = tidegate(*arguments, folder=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
