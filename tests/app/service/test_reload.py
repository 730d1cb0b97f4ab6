"""SIGHUP: what is applied at once, what is named for a restart, what a wrong file changes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.app.service.reload import changes, in_force, is_at_once
from gateway.config import Configuration, load
from gateway.config.reference import reference
from gateway.config.spelling import dotted
from gateway.frames import Connack, Connect, Regack, Register, ReturnCode, decode, encode
from gateway.host.supervisor import how_to
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_port, free_udp_port
from tests.app.service.systemd_socket import SystemdSocket
from tests.cli.tidegate import environment_with

NOWHERE = "mqtt://127.0.0.1:1"
PATIENCE_S = 60.0


def configured(folder: Path, text: str) -> Configuration:
    path = folder / "c.toml"
    path.write_text(text)
    return load(path, environment={}, overrides=())


def hang_up(gateway: GatewayProcess) -> None:
    os.kill(gateway.pid, signal.SIGHUP)


def edit(gateway: GatewayProcess, old: str, new: str) -> None:
    text = gateway.config_path.read_text()
    assert old in text
    gateway.config_path.write_text(text.replace(old, new))


def answer_to_connect(port: int, client_id: bytes, trailing: bytes = b"") -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.settimeout(10)
        sensor.sendto(encode(Connect(client_id, 60)) + trailing, ("127.0.0.1", port))
        frame = decode(sensor.recv(100))
        assert isinstance(frame, Connack)
        return frame.return_code


def test_each_changed_key_is_named_with_its_place_and_when_it_counts(tmp_path: Path) -> None:
    gateway = GatewayProcess(
        tmp_path, NOWHERE, '[log]\nlevel = "info"\n[limits]\nclients_max = 5\n'
    )
    with SystemdSocket(tmp_path) as systemd:
        gateway.start(environment=systemd.environment())
        systemd.wait_for("READY=1")
        edit(gateway, '"info"', '"debug"')
        edit(gateway, "clients_max = 5", "clients_max = 6\nconnects_per_s_max = 7")
        hang_up(gateway)
        assert systemd.wait_for("RELOADING=1").startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert "STATUS=2 changed keys wait for a restart (" in systemd.wait_for("READY=1")
        path = gateway.config_path
        for line in (
            f'reload: in force now: log.level = "debug", was "info" ({path}:8:9)',
            f"reload: needs a restart: limits.clients_max = 6, was 5 ({path}:10:15)",
            f"reload: needs a restart: limits.connects_per_s_max = 7, was 2000 ({path}:11:22)",
            f"reload: for 2 keys: {how_to('restart')}",
        ):
            gateway.wait_for_log(re.escape(line))
        answer_to_connect(gateway.port, b"well", trailing=b"!")
        gateway.wait_for_log("DEBUG .*trailing")
        assert gateway.stop() == 0


def test_what_a_listener_asks_for_waits_for_a_restart_and_an_alarm_says_so(tmp_path: Path) -> None:
    page = free_port(socket.SOCK_STREAM)
    listener = f'[[udp]]\nlisten = "127.0.0.1:{free_udp_port()}"\n'
    gateway = GatewayProcess(tmp_path, NOWHERE, f'{listener}[admin]\nlisten = "127.0.0.1:{page}"\n')

    def alarms() -> dict[str, str]:
        with urlopen(f"http://127.0.0.1:{page}/api/status", timeout=10) as answer:
            body = json.load(answer)
        return dict(zip(body["alarm_names"], body["alarms"], strict=True))

    with gateway:
        answer_to_connect(gateway.port, b"well")
        edit(gateway, listener, f'{listener}security = "protected"\n')
        hang_up(gateway)
        gateway.wait_for_log(r'reload: needs a restart: udp\.0\.security = "protected", was ')
        until = time.monotonic() + 30
        while "restart_wanted" not in alarms():
            assert time.monotonic() < until
            time.sleep(0.2)
        said = alarms()["restart_wanted"]
        assert said == f"1 changed keys wait for a restart (udp.0.security): {how_to('restart')}"
        edit(gateway, 'security = "protected"\n', "")
        hang_up(gateway)
        gateway.wait_for_log("reload: no key has another value", timeout_s=30)
        while "restart_wanted" in alarms():
            assert time.monotonic() < until
            time.sleep(0.2)


def test_a_wrong_file_changes_nothing_and_its_place_is_said(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE, '[log]\nlevel = "info"\n')
    with SystemdSocket(tmp_path) as systemd:
        gateway.start(environment=systemd.environment())
        systemd.wait_for("READY=1")
        edit(gateway, 'level = "info"', 'level = "debug"\nfromat = "json"')
        hang_up(gateway)
        systemd.wait_for("READY=1")
        place = f"{gateway.config_path}:9:1"
        gateway.wait_for_log(
            re.escape(f"reload: {place}: log.fromat: unknown key, did you mean log.format?")
        )
        gateway.wait_for_log(re.escape("reload: nothing is changed, the gateway goes on as it was"))
        edit(gateway, "fromat", "format")
        hang_up(gateway)
        systemd.wait_for("READY=1")
        gateway.wait_for_log(re.escape("reload: in force now: log.format"))
        hang_up(gateway)
        systemd.wait_for("READY=1")
        gateway.wait_for_log(re.escape('"message": "reload: no key has another value"'))
        assert gateway.stop() == 0


def test_a_secret_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("tide\n")
    gateway = GatewayProcess(
        tmp_path, NOWHERE, f'username = "g"\npassword_file = "{tmp_path}/secret"\n'
    )
    with gateway:
        gateway.wait_for_log("listening")
        gateway.wait_for_log(" unreachable: ")
        (tmp_path / "secret").unlink()
        hang_up(gateway)
        gateway.wait_for_log(
            "reload: upstream.password_file .*/secret cannot be read: No such file or directory; "
            "nothing is changed"
        )
        assert gateway.stop() == 0


def test_a_new_password_lets_the_gateway_in_without_a_restart(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    subprocess.run(
        ["mosquitto_passwd", "-b", "-c", str(passwords), "g", "new"],
        check=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )
    passwords.chmod(0o644)
    broker = Mosquitto([f"password_file {passwords}"], allow_anonymous=False)
    secret = tmp_path / "secret"
    secret.write_text("old")
    lines = f'username = "g"\npassword_file = "{secret}"\nreconnect_delay_s_min = 0.5\n'
    with broker, GatewayProcess(tmp_path, broker.url, lines) as gateway:
        gateway.wait_for_log(" unreachable: ")
        secret.write_text("new\n")
        hang_up(gateway)
        gateway.wait_for_log("reload: passwords or certificates are others now")
        gateway.wait_until_connected()


def test_a_sensor_that_was_added_to_the_list_comes_in(tmp_path: Path) -> None:
    lines = '[admission]\npermit = "listed"\nlisted = ["tank"]\n'
    with GatewayProcess(tmp_path, NOWHERE, lines) as gateway:
        assert answer_to_connect(gateway.port, b"well") == ReturnCode.CONGESTION
        edit(gateway, '["tank"]', '["tank", "well"]')
        hang_up(gateway)
        gateway.wait_for_log(r'in force now: admission.listed = \["tank", "well"\]')
        assert answer_to_connect(gateway.port, b"well") == ReturnCode.ACCEPTED


def test_other_rules_of_access_count_at_once_and_end_what_they_forbid(tmp_path: Path) -> None:
    lines = '[[access]]\ntopics = ["s/{client}/#"]\n'
    with (
        GatewayProcess(tmp_path, NOWHERE, lines) as gateway,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tank,
    ):
        tank.settimeout(PATIENCE_S)
        tank.connect(("127.0.0.1", gateway.port))

        def code(frame: Connect | Register) -> int:
            tank.send(encode(frame))
            answer = decode(tank.recv(100))
            assert isinstance(answer, Connack | Regack)
            return answer.return_code

        assert code(Connect(b"tank", 60)) == ReturnCode.ACCEPTED
        forbidden = Register(0, 2, b"s/well/t")
        assert code(Register(0, 1, b"s/tank/t")) == ReturnCode.ACCEPTED
        assert code(forbidden) == ReturnCode.NOT_SUPPORTED
        gateway.wait_for_log(r"forbidden.*add an entry to \[\[access\]\]")
        edit(gateway, '"s/{client}/#"', '"s/+/#"')
        hang_up(gateway)
        gateway.wait_for_log(r'in force now: access.0.topics = \["s/\+/#"\]')
        assert code(forbidden) == ReturnCode.ACCEPTED, "without another CONNECT"


def test_a_password_is_not_told_to_another_broker(tmp_path: Path) -> None:
    before = configured(tmp_path, '[upstream]\nurl = "mqtt://a"\nusername = "u"\n')
    after = configured(tmp_path, '[upstream]\nurl = "mqtt://b"\nusername = "v"\n')
    found = {change.path[-1]: change for change in changes(before, after)}
    assert set(found) == {"url", "username"}
    assert not any(
        is_at_once(change.path, before.settings, after.settings) for change in found.values()
    )
    assert in_force(before, after).settings == before.settings


EVERY_KEY_THAT_COUNTS = """
[upstream]
url = "mqtts://a"
username = "{word}"
password_file = "{word}"
ca_file = "{word}"
cert_file = "{word}"
key_file = "{word}"
tls_min = "{tls}"
fingerprints = ["{digits}"]
server_name = "{word}"
alpn = ["{word}"]
keep_alive_s = {number}
[security]
access_default = "{access}"
subscribe_wider = "{wider}"
keys_file = "{word}"
[dtls]
certificate = "{word}"
key = "{word}"
ca = "{word}"
crl = "{word}"
allow_file = "{word}"
allow = ["{word}"]
[[binding]]
identities = ["{word}"]
clients = ["{word}"]
[[access]]
topics = ["{word}"]
clients = ["{word}"]
identities = ["{word}"]
actions = ["{action}"]
allow = {allow}
qos_max = {number}
retain = {allow}
payload_bytes_max = {number}
[admission]
listed = ["{word}"]
[admin]
password_file = "{word}"
[[admin_user]]
name = "{word}"
password = "$scrypt$ln=14,r=8,p={number}$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
role = "{role}"
[[admin_token]]
name = "{word}"
token = "$sha256${letters}"
role = "{role}"
[log]
level = "{level}"
format = "{form}"
"""


def test_what_counts_at_once_is_what_the_document_says(tmp_path: Path) -> None:
    texts = (
        {"word": "a", "number": 1, "level": "info", "form": "text", "access": "allow",
         "wider": "refuse", "action": "will", "allow": "true", "tls": "1.2",
         "digits": "0" * 64, "letters": "A" * 43,
         "role": "viewer"},
        {"word": "b", "number": 2, "level": "debug", "form": "json", "access": "deny",
         "wider": "narrow", "action": "publish", "allow": "false", "tls": "1.3", "digits": "1" * 64,
         "letters": "B" * 43, "role": "operator"},
    )  # fmt: skip
    before, after = (configured(tmp_path, EVERY_KEY_THAT_COUNTS.format(**each)) for each in texts)
    documented = {
        key[1]
        for key in re.finditer(
            r"^#### `(\w+\.\w+)`$(.*?)(?=^###|\Z)", reference(), re.MULTILINE | re.DOTALL
        )
        if "takes effect: at a reload" in key[2]
    }
    found = {dotted(change.path).replace(".0.", "."): change for change in changes(before, after)}
    assert set(found) == documented | {"upstream.keep_alive_s"}
    left = {dotted(change.path) for change in changes(in_force(before, after), after)}
    assert left == {"upstream.keep_alive_s"}


def test_what_is_in_force_has_the_places_of_the_file_it_came_from(tmp_path: Path) -> None:
    before = configured(tmp_path, '[log]\nlevel = "info"\n[gateway]\nid = 1\n')
    after = configured(tmp_path, '\n[gateway]\nid = 2\n[log]\nlevel = "debug"\n')
    now = in_force(before, after)
    assert (now.settings.log.level, now.settings.gateway.id) == ("debug", 1)
    assert now.origin_of("log.level").endswith("c.toml:5:9")
    assert now.origin_of("gateway.id").endswith("c.toml:4:6")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("", '[[serial]]\nport = "/dev/ttyS9"\n', "serial.0.port"),
        ('[[serial]]\nport = "/dev/ttyS9"\n', "", "serial.0.port"),
        ('[predefined_topics]\n"a/b" = 1\n', "", 'predefined_topics."a/b"'),
        ("", '[[udp]]\nlisten = "0.0.0.0:1884"\n', "udp.0.listen"),
    ],
)
def test_tables_that_come_and_go_are_changes(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    found = changes(configured(tmp_path, before), configured(tmp_path, after))
    assert any(str(change).startswith(f"{told} = ") for change in found)


def test_a_terminal_that_is_gone_ends_the_gateway(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "gateway", "run", "--config", str(gateway.config_path)]
        more = ["--set", "udp.0.listen=127.0.0.1:0", "--set", "admin.listen="]
        os.execve(sys.executable, command + more, environment_with({}))
    said = b""
    while b" unreachable: " not in said:
        said += os.read(terminal, 4096)
    os.kill(pid, signal.SIGHUP)
    while b"no key has another value" not in said:
        said += os.read(terminal, 4096)
    os.close(terminal)
    # By itself, not by the signal; 120 is Python's word for a stderr that is gone.
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 120)
