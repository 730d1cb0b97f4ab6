"""Seeded faults, each with the exact command that `tidegate doctor` names for it."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.doctor import clock
from gateway.cli.doctor.block_device import BlockDevice
from gateway.cli.doctor.findings import Level
from gateway.cli.doctor.wear import wear
from tests.cli.tidegate import tidegate
from tests.links.certificates import Certificates
from tests.support.mosquitto import Mosquitto, free_tcp_port
from tests.support.ports import free_udp_port

QUIET = '[gateway]\nstate_dir = "state"\n[admin]\nlisten = ""\n[[udp]]\nlisten = "127.0.0.1:0"\n'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Doctor:
    """Runs the verb on a configuration, with programs of this folder before those of the system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "c.toml"
        self.programs = folder / "programs"
        self.programs.mkdir()

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, part: str, text: str, *, code: int) -> list[dict[str, Any]]:
        self.config.write_text(text)
        environment = {"PATH": f"{self.programs}:{os.environ['PATH']}"}
        command = ("doctor", "--only", part, "--syncs", "10", "--config", self.config, "--json")
        done = tidegate(*command, folder=self.folder, environment=environment)
        assert done.returncode == code, done.stdout + done.stderr
        answer = json.loads(done.stdout)
        assert answer["ok"] is (code == 0)
        found: list[dict[str, Any]] = answer[part]["findings"]
        for finding in found:
            assert finding["level"] != "failure" or finding["command"], finding
        return found

    def commands(self, part: str, text: str, *, level: str = "failure") -> list[str]:
        """Of all findings of a level."""
        found = self.run(part, text, code=1 if level == "failure" else 0)
        return [finding["command"] for finding in found if finding["level"] == level]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


# Configuration and rights


def test_a_wrong_configuration_is_opened_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[gateway]\nidd = 3\n[log]\nlevel = 7\n")
    done = tidegate("doctor", "--config", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (78, "")
    assert "c.toml:2:1: gateway.idd: unknown key, did you mean gateway.id?\n" in done.stdout
    assert "  $ sudo nano +2,1 c.toml\n" in done.stdout
    assert "  $ sudo nano +4,9 c.toml\n" in done.stdout


def test_a_configuration_that_is_not_there_is_written(tmp_path: Path) -> None:
    done = tidegate("doctor", "--config", "no.toml", "--json", folder=tmp_path)
    (finding,) = json.loads(done.stdout)["configuration"]["findings"]
    assert (done.returncode, finding["command"]) == (78, "sudo tidegate init no.toml")


def test_a_secret_that_is_missing_is_put_there(doctor: Doctor) -> None:
    text = f'{QUIET}[upstream]\nusername = "g"\npassword_file = "secret"\n'
    assert doctor.commands("configuration", text) == [
        f"sudo install -D -m 0600 /dev/stdin {doctor.folder}/secret"
    ]
    text = text.replace('"secret"', '"credential:tidegate.upstream.password"')
    assert doctor.commands("configuration", text) == [
        "sudo install -D -m 0600 /dev/stdin /etc/credstore/tidegate.upstream.password"
    ]


def test_a_secret_that_everybody_reads_is_taken_from_them(doctor: Doctor) -> None:
    secret = doctor.folder / "secret"
    secret.write_text("tide")
    secret.chmod(0o644)
    text = QUIET.replace("[admin]\n", '[admin]\npassword_file = "secret"\n')
    (command,) = doctor.commands("configuration", text)
    assert command == f"sudo chmod o-rwx {secret}"
    subprocess.run(command.removeprefix("sudo ").split(), check=True)
    assert secret.stat().st_mode & stat.S_IRWXO == 0
    assert doctor.commands("configuration", text, level="warning") == []


# Ports


def test_a_port_that_another_program_has_is_freed(doctor: Doctor) -> None:
    port = free_udp_port()
    program = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.bind(('127.0.0.1', {port})); print(flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        text = QUIET.replace("127.0.0.1:0", f"127.0.0.1:{port}")
        (command,) = doctor.commands("listeners", text)
        assert command in (f"sudo kill {other.pid}", command if "systemctl" in command else "")
    finally:
        other.communicate()
    assert doctor.run("listeners", text, code=0) == []


def test_an_address_that_is_not_here_is_opened_in_the_file(doctor: Doctor) -> None:
    text = QUIET.replace("127.0.0.1:0", "192.0.2.1:1883")
    assert doctor.commands("listeners", text) == [f"sudo nano +6,10 {doctor.config}"]


def test_a_page_whose_port_is_taken_names_who_looks_it_up(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = QUIET.replace('listen = ""', f'listen = "127.0.0.1:{port}"')
        found = doctor.run("listeners", text, code=0)
    assert [each["command"] for each in found] == [f"sudo ss -tlpn sport = :{port}"]


def test_an_interface_without_multicast_is_switched(doctor: Doctor) -> None:
    more = 'multicast = "225.1.1.1:1883"\nmulticast_interface = "lo"\n'
    assert doctor.commands("listeners", QUIET + more) == [
        "sudo ip link set dev lo multicast on",
    ]
    gone = (QUIET + more).replace('"lo"', '"eth77"')
    assert doctor.commands("listeners", gone) == [f"sudo nano +8,23 {doctor.config}"]


# The broker


def upstream(port: int, more: str = "", scheme: str = "mqtt", host: str = "127.0.0.1") -> str:
    return f'{QUIET}[upstream]\nurl = "{scheme}://{host}:{port}"\n{more}'


def test_a_broker_that_does_not_run_is_started(doctor: Doctor) -> None:
    (command,) = doctor.commands("broker", upstream(free_tcp_port()))
    assert command in (
        "sudo systemctl enable --now mosquitto",
        "sudo apt-get install mosquitto",
    )


def test_a_name_that_is_none_is_opened_in_the_file(doctor: Doctor) -> None:
    text = upstream(1883, host="broker.invalid")
    assert doctor.commands("broker", text) == [f"sudo nano +8,7 {doctor.config}"]


def test_a_wrong_password_is_typed_anew_and_a_missing_one_is_set(doctor: Doctor) -> None:
    passwords, secret = doctor.folder / "passwords", doctor.folder / "secret"
    path = f"{os.environ['PATH']}:/usr/sbin"
    subprocess.run(
        ["mosquitto_passwd", "-b", "-c", str(passwords), "g", "tide"],
        check=True,
        env={**os.environ, "PATH": path},
    )
    passwords.chmod(0o644)
    secret.write_text("ebb")
    secret.chmod(0o600)
    with Mosquitto([f"password_file {passwords}"], allow_anonymous=False) as broker:
        text = upstream(broker.port, f'username = "g"\npassword_file = "{secret}"\n')
        (finding,) = doctor.run("broker", text, code=1)
        assert "the broker answered CONNACK 0x87" in finding["what"]
        assert finding["command"] == f"sudo tee {secret} >/dev/null"
        assert doctor.commands("broker", upstream(broker.port)) == [f"sudo nano {doctor.config}"]
        secret.write_text("tide\n")
        assert doctor.run("broker", text, code=0) == []


def test_a_gateway_that_is_connected_stays_so(doctor: Doctor) -> None:
    """Its session would go to whoever comes with its client id."""
    with Mosquitto() as broker, socket.create_connection(("127.0.0.1", broker.port)) as line:
        import mqtt5

        line.sendall(mqtt5.ConnectPacket("tidegate-gh", clean_start=False).write())
        line.recv(100)
        text = upstream(broker.port).replace("[gateway]", '[gateway]\nname = "gh"')
        assert doctor.run("broker", text, code=0) == []
        line.sendall(mqtt5.PingReqPacket().write())
        assert line.recv(100) == mqtt5.PingRespPacket().write()


def tls_lines(certificates: Certificates, certificate: Path) -> list[str]:
    return [f"certfile {certificate}", f"keyfile {certificates.key(certificate)}"]


def readable(certificates: Certificates) -> None:
    for path in (*certificates.folder.iterdir(), certificates.folder, *certificates.folder.parents):
        if path.owner() == "root" and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o044 | (0o011 if path.is_dir() else 0))


@pytest.mark.parametrize(
    ("kind", "host", "told"),
    [
        ("expired", "localhost", "has expired"),
        ("wrong_name", "localhost", "is not for 'localhost'"),
        ("server", "localhost", "comes from an authority that is not trusted here"),
    ],
)
def test_a_certificate_that_is_refused_is_shown(
    doctor: Doctor, certificates: Certificates, kind: str, host: str, told: str
) -> None:
    certificate = getattr(certificates, kind)
    readable(certificates)
    authority = certificates.other_authority if kind == "server" else certificates.authority
    with Mosquitto(tls_lines(certificates, certificate)) as broker:
        text = upstream(broker.port, f'ca_file = "{authority}"\n', "mqtts", host)
        (finding,) = doctor.run("broker", text, code=1)
        assert told in finding["what"]
        assert finding["command"] == (
            f"openssl s_client -connect {host}:{broker.port} -servername {host} </dev/null | "
            "openssl x509 -noout -subject -issuer -dates -ext subjectAltName"
        )


def test_tls_and_plain_that_do_not_meet_are_opened_in_the_file(
    doctor: Doctor, certificates: Certificates
) -> None:
    with Mosquitto() as plain:
        text = upstream(plain.port, f'ca_file = "{certificates.authority}"\n', "mqtts")
        (finding,) = doctor.run("broker", text, code=1)
        assert "does not answer in TLS" in finding["what"] or "broke off" in finding["what"]
    readable(certificates)
    with Mosquitto(tls_lines(certificates, certificates.server)) as broker:
        (finding,) = doctor.run("broker", upstream(broker.port), code=1)
        assert "write mqtts:// in upstream.url" in finding["what"]
        assert finding["command"] == f"sudo nano +8,7 {doctor.config}"


def test_a_broker_whose_certificate_is_right_is_well(
    doctor: Doctor, certificates: Certificates
) -> None:
    readable(certificates)
    with Mosquitto(tls_lines(certificates, certificates.server)) as broker:
        text = upstream(
            broker.port, f'ca_file = "{certificates.authority}"\n', "mqtts", "localhost"
        )
        assert doctor.run("broker", text, code=0) == []


def test_an_own_certificate_that_has_expired_is_replaced(
    doctor: Doctor, certificates: Certificates
) -> None:
    old = certificates.signed("old", "subjectAltName=DNS:gateway", days=-1)
    soon = certificates.signed("soon", "subjectAltName=DNS:gateway", days=7)
    readable(certificates)
    with Mosquitto(tls_lines(certificates, certificates.server)) as broker:
        for path, level in ((old, "failure"), (soon, "warning")):
            more = (
                f'ca_file = "{certificates.authority}"\ncert_file = "{path}"\n'
                f'key_file = "{certificates.key(path)}"\n'
            )
            text = upstream(broker.port, more, "mqtts", "localhost")
            assert doctor.commands("broker", text, level=level) == [
                f"sudo install -m 0644 NEW_FILE {path}"
            ]


def test_what_answers_and_is_no_broker_is_said(doctor: Doctor) -> None:
    def answer(server: socket.socket) -> None:
        line, _ = server.accept()
        with line:
            line.recv(1000)
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        (finding,) = doctor.run("broker", upstream(server.getsockname()[1]), code=1)
        thread.join()
    assert "does not speak MQTT 5" in finding["what"] or "without a word" in finding["what"]
    assert finding["command"]


# Clock, disk, services


@pytest.mark.parametrize("unix_s", [0.0, 1_700_000_000.0, 9_000_000_000.0])
def test_a_clock_that_is_wrong_is_set(unix_s: float) -> None:
    (finding, *_) = clock.examine(unix_s).findings
    assert finding.level is Level.FAILURE
    assert finding.command == "sudo timedatectl set-ntp true"


def test_a_clock_that_follows_nobody_is_set(doctor: Doctor) -> None:
    doctor.program("timedatectl", "echo no")
    commands = doctor.commands("clock", QUIET, level="warning")
    assert commands == ["sudo timedatectl set-ntp true"]
    doctor.program("timedatectl", "echo yes")
    assert doctor.run("clock", QUIET, code=0) == []


def test_a_state_in_memory_is_opened_in_the_file(doctor: Doctor) -> None:
    text = QUIET.replace('"state"', '"/dev/shm/tidegate"')
    assert doctor.commands("disk", text) == [f"sudo nano +2,13 {doctor.config}"]


def test_a_file_in_place_of_the_state_is_moved(doctor: Doctor) -> None:
    (doctor.folder / "state").touch()
    (command,) = doctor.commands("disk", QUIET)
    assert command == f"sudo mv {doctor.folder}/state {doctor.folder}/state.old"
    subprocess.run(command.removeprefix("sudo ").split(), check=True)
    assert doctor.commands("disk", QUIET, level="warning") == []


@pytest.mark.parametrize(
    ("life", "spare", "level"),
    [
        ("0x01 0x02", "0x01", None),
        ("0x09 0x02", "0x01", Level.WARNING),
        ("0x01 0x01", "0x02", Level.WARNING),
        ("0x0b 0x02", "0x01", Level.FAILURE),
        ("0x01 0x01", "0x03", Level.FAILURE),
        ("nonsense", "", None),
    ],
)
def test_a_card_that_is_worn_is_backed_up(
    tmp_path: Path, life: str, spare: str, level: Level | None
) -> None:
    folder = tmp_path / "class" / "block" / "mmcblk0" / "device"
    folder.mkdir(parents=True)
    (folder / "life_time").write_text(f"{life}\n")
    (folder / "pre_eol_info").write_text(f"{spare}\n")
    found = list(wear(BlockDevice("mmcblk0", "eMMC", None), tmp_path))
    assert [each.level for each in found] == ([] if level is None else [level])
    assert [each.command for each in found] == [
        "sudo tidegate backup /media/usb/tidegate.backup" for _ in found
    ]
    assert list(wear(BlockDevice("sda", "solid state", None), tmp_path)) == []


WELL = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "Result": "success",
    "NRestarts": "0",
    "NeedDaemonReload": "no",
    "ReadWritePaths": "",
}


@pytest.fixture
def systemd(doctor: Doctor) -> Callable[..., None]:
    """A systemctl that tells what it is told to tell of the gateway's service, and of another."""

    def tells(other: str = "none", **changes: str) -> None:
        lines = "\n".join(f"echo {name}={value}" for name, value in (WELL | changes).items())
        doctor.program(
            "systemctl",
            f'case "$2" in\ntidegate.service)\n{lines}\n;;\n'
            f"{other}) echo ActiveState=active ;;\n*) echo LoadState=not-found ;;\nesac",
        )

    return tells


SERVICE = QUIET.replace('"state"', '"/var/lib/tidegate"')


@pytest.mark.parametrize(
    ("changes", "level", "command"),
    [
        (
            {"ActiveState": "failed", "Result": "exit-code"},
            "failure",
            "sudo systemctl reset-failed tidegate && sudo systemctl start tidegate",
        ),
        (
            {"LoadState": "masked", "ActiveState": "inactive"},
            "failure",
            "sudo systemctl unmask tidegate && sudo systemctl enable --now tidegate",
        ),
        ({"UnitFileState": "disabled"}, "warning", "sudo systemctl enable --now tidegate"),
        ({"ActiveState": "inactive"}, "warning", "sudo systemctl start tidegate"),
        ({"NRestarts": "7"}, "warning", "sudo journalctl -u tidegate -p warning -b"),
        (
            {"NeedDaemonReload": "yes"},
            "warning",
            "sudo systemctl daemon-reload && sudo systemctl restart tidegate",
        ),
        (
            {"LoadState": "not-found"},
            "note",
            "tidegate unit | sudo tee /etc/systemd/system/tidegate.service",
        ),
    ],
)
def test_a_service_that_is_not_well_is_mended(
    doctor: Doctor,
    systemd: Callable[..., None],
    changes: dict[str, str],
    level: str,
    command: str,
) -> None:
    systemd(**changes)
    assert doctor.commands("units", SERVICE, level=level) == [command]


def test_a_service_that_is_well_is_left_alone(doctor: Doctor, systemd: Callable[..., None]) -> None:
    systemd()
    assert doctor.run("units", SERVICE, code=0) == []


def test_a_state_that_the_sandbox_hides_is_allowed(
    doctor: Doctor, systemd: Callable[..., None]
) -> None:
    systemd()
    (command,) = doctor.commands("units", QUIET)
    assert command == (
        "sudo mkdir -p /etc/systemd/system/tidegate.service.d && "
        f"printf '[Service]\\nReadWritePaths={doctor.folder}/state\\n' | "
        "sudo tee /etc/systemd/system/tidegate.service.d/state_dir.conf && "
        "sudo systemctl daemon-reload"
    )
    systemd(ReadWritePaths=str(doctor.folder))
    assert doctor.run("units", QUIET, code=0) == []


def test_services_that_take_serial_ports_are_switched_off(
    doctor: Doctor, systemd: Callable[..., None]
) -> None:
    line = SERVICE + '[[serial]]\nport = "/dev/ttyS97"\n'
    systemd("ModemManager.service")
    assert doctor.commands("units", line, level="warning") == [
        "sudo systemctl disable --now ModemManager"
    ]
    systemd("serial-getty@ttyS97.service")
    assert doctor.commands("units", line) == ["sudo systemctl disable --now serial-getty@ttyS97"]


def test_a_serial_port_that_is_not_there_is_looked_for(doctor: Doctor) -> None:
    text = QUIET + '[[serial]]\nport = "/dev/ttyUSB97"\n'
    assert doctor.commands("serial", text, level="warning") == ["ls -l /dev/serial/by-id/"]


def test_without_systemd_nothing_is_said_of_services(doctor: Doctor) -> None:
    doctor.program("systemctl", "exit 1")
    assert doctor.run("units", SERVICE, code=0) == []


def test_every_part_is_examined_and_answers_in_json(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(QUIET)
    done = tidegate("doctor", "--config", "c.toml", "--syncs", "10", "--json", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert list(answer) == [
        *("schema", "ok", "configuration", "clock", "disk", "listeners", "serial", "broker"),
        "units",
    ]
