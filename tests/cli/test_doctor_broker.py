"""What `tidegate doctor` says of a broker, and which command mends it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import mqtt5
import pytest

from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.cli.doctor import QUIET, Doctor
from tests.transports.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def upstream(port: int, more: str = "", scheme: str = "mqtt", host: str = "127.0.0.1") -> str:
    return f'{QUIET}[upstream]\nurl = "{scheme}://{host}:{port}"\n{more}'


def test_a_broker_that_does_not_run_is_started(doctor: Doctor) -> None:
    (command,) = doctor.commands("broker", upstream(free_tcp_port()))
    assert command in (
        "sudo systemctl enable --now mosquitto",
        "sudo apt-get install -y mosquitto",
        "/usr/sbin/mosquitto -d",
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
        line.sendall(mqtt5.ConnectPacket("tidegate-gh", clean_start=False).write())
        line.recv(100)
        text = upstream(broker.port).replace("[gateway]", '[gateway]\nname = "gh"')
        assert doctor.run("broker", text, code=0) == []
        line.sendall(mqtt5.PingReqPacket().write())
        assert line.recv(100) == mqtt5.PingRespPacket().write()


def tls_lines(certificates: Certificates, certificate: Path) -> list[str]:
    return [f"certfile {certificate}", f"keyfile {certificates.key(certificate)}"]


def readable(certificates: Certificates) -> None:
    """For the user that root's mosquitto becomes."""
    if os.geteuid() != 0:
        return
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
        assert finding["command"] == f"sudo nano +8,7 {doctor.config}"
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


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\n" + b"Server: nginx\r\n" * 9,
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
    ],
)
def test_what_answers_and_is_no_broker_is_said(doctor: Doctor, said: bytes) -> None:
    def answer(server: socket.socket) -> None:
        line, _ = server.accept()
        with line:
            line.recv(1000)
            line.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        (finding,) = doctor.run("broker", upstream(server.getsockname()[1]), code=1)
        thread.join()
    assert f"does not speak MQTT 5: {said[:16]!r} in place of CONNACK" in finding["what"]
    assert finding["command"] == f"sudo nano +8,7 {doctor.config}"


def test_what_takes_connections_and_says_nothing_may_be_no_broker(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = upstream(server.getsockname()[1], "connect_timeout_s = 1\n")
        (finding,) = doctor.run("broker", text, code=1)
    assert "no CONNACK within 1 s; is it an MQTT 5 broker?" in finding["what"]
    assert finding["command"] == f"sudo nano +8,7 {doctor.config}"
