"""Keys of devices in a running gateway: taken with a reload, and nowhere to be seen."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from secrets import token_bytes

import pytest

from gateway.app.credentials import read_credentials
from gateway.app.service.reloading import CurrentConfiguration
from gateway.config import load
from gateway.core.access.device_keys import sender_id_of
from gateway.core.protection.channel import Channel
from gateway.core.protection.envelope import parse
from gateway.frames import Connack, Connect, decode, encode
from hil.rig.gateway import GatewayProcess
from tests.app.service.test_reload import NOWHERE, hang_up
from tests.cli.tidegate import tidegate

CANARY = b"a canary in keys"


def in_force(folder: Path) -> CurrentConfiguration:
    configuration = load(
        None, environment={}, overrides=[f"gateway.state_dir={folder}", "upstream.url=mqtt://x"]
    )
    return CurrentConfiguration(configuration, read_credentials(configuration.settings))


def add(folder: Path, name: str = "tank", key: bytes = CANARY) -> None:
    (folder / "key").write_text(key.hex())
    (folder / "key").chmod(0o600)
    done = tidegate(
        *("keys", "add", name, "--key-file", "key", "--set", f"gateway.state_dir={folder}"),
        folder=folder,
    )
    (folder / "key").unlink()
    assert done.returncode == 0, done.stderr


def test_who_needs_keys_asks_what_is_in_force(tmp_path: Path) -> None:
    assert len(in_force(tmp_path).device_keys()) == 0
    add(tmp_path)
    found = in_force(tmp_path)
    assert [each.secret for each in found.device_keys().of_name("tank")] == [CANARY]
    for text in (repr(found), str(found.credentials), repr(found.device_keys().of_name("tank"))):
        assert CANARY.decode() not in text
        assert CANARY.hex() not in text


def test_a_canary_is_nowhere(tmp_path: Path) -> None:
    """In no line of the log at debug level, no page, no report, no argument of the process."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    add(state)
    (state / "epoch").write_text("0\n", encoding="ascii")
    lines = '[admin]\nlisten = "127.0.0.1:0"\n[log]\nlevel = "debug"\n'
    with GatewayProcess(tmp_path, NOWHERE, lines) as gateway:
        port = int(gateway.wait_for_log(r"status page on http://127.0.0.1:(\d+)").group(1))
        add(state, "door", b"another canary..")
        hang_up(gateway)
        gateway.wait_for_log("reload: 2 devices have keys")
        damaged = (state / "device.keys").read_bytes()[:-9]
        (state / "device.keys").write_bytes(damaged)
        hang_up(gateway)
        gateway.wait_for_log("reload: security.keys_file .* is damaged: .*nothing is changed")
        seen = [page(port, path) for path in PATHS]
        seen.append(Path(f"/proc/{gateway.pid}/cmdline").read_bytes())
        seen.append(Path(f"/proc/{gateway.pid}/environ").read_bytes())
        done = tidegate(
            *("report", "report.tar.gz", "--config", gateway.config_path),
            *("--set", f"admin.listen=127.0.0.1:{port}"),
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout.encode() + done.stderr.encode())
        assert gateway.stop() == 0
    seen.append(gateway.log.encode())
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tarfile", "-e", tmp_path / "report.tar.gz", unpacked], check=True
    )
    seen += [each.read_bytes() for each in unpacked.rglob("*") if each.is_file()]
    for canary in (CANARY, b"another canary.."):
        for form in (canary, canary.hex().encode(), canary.hex().upper().encode()):
            assert all(form not in each for each in seen)


def connects(port: int, name: str, secret: bytes) -> bool:
    """Whether a sensor that protects its packets with this key gets CONNACK."""
    channel = Channel(
        sender_id=sender_id_of(name), secret=secret, epoch=1, random=token_bytes, is_device=True
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.settimeout(5)
        sensor.connect(("127.0.0.1", port))
        sensor.send(channel.seal(encode(Connect(name.encode(), 60, clean_session=True))))
        while True:
            try:
                opened = channel.open(parse(sensor.recv(1000)), time.monotonic())
            except TimeoutError:
                return False
            if opened.reply:
                sensor.send(opened.reply)
            if opened.packet:
                return decode(opened.packet) == Connack(0)


@pytest.mark.parametrize("links", ["", "[protection]\nrequired = true\n"])
def test_the_first_key_of_all_needs_no_restart_and_later_ones_not_even_a_reload(
    tmp_path: Path, links: str
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "epoch").write_text("0\n", encoding="ascii")
    with GatewayProcess(tmp_path, NOWHERE, links) as gateway:
        gateway.wait_for_log("listening for sensors")
        add(state)
        hang_up(gateway)
        gateway.wait_for_log("reload: 1 devices have keys")
        assert connects(gateway.port, "tank", CANARY)
        assert not connects(gateway.port, "door", b"another canary..")
        add(state, "door", b"another canary..")
        gateway.wait_for_log("reload: 2 devices have keys", timeout_s=60.0)
        assert connects(gateway.port, "door", b"another canary..")
        assert gateway.stop() == 0


PATHS = ("/", "/api/status", "/api/config", "/api/log", "/api/clients", "/metrics", "/healthz")


def page(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_the_unit_writes_no_core_dump(tmp_path: Path) -> None:
    done = tidegate("unit", "--command", "/usr/bin/tidegate", folder=tmp_path)
    assert re.search(r"^LimitCORE=0$", done.stdout, re.MULTILINE)
