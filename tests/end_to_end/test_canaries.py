"""A canary in the place of each secret: it is nowhere but where it belongs.

A running gateway at debug level, its page as operator and as viewer by every path, the archive of
`tidegate report`, a backup without secrets, and the arguments and environment of the process and of
the one that it starts.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.admin.http.passwords import hash_password, hash_token
from gateway.admin.http.sign_in import OPERATOR
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from hil.rig.ports import free_udp_port
from tests.admin.test_routes import ROWS
from tests.app.service.test_device_keys import add
from tests.app.service.test_reload import hang_up
from tests.cli.tidegate import tidegate
from tests.end_to_end.test_dtls import client
from tests.transports.certificates import Certificates

DEVICE_KEY = b"canary device key"
HOOK_KEY = b"canary of a hook"
PAGE_PASSWORD = "canary-of-the-page"
USER_PASSWORD = "canary-of-a-user"
BROKER_PASSWORD = "canary-of-the-broker"
TOKEN = "tg_canary0123456789012345678901234567890123456"
FOLLOWED = [path for method, path in ROWS if method == "GET" and "<" not in path]
NOWHERE = "mqtts://localhost:1"


class Page:
    def __init__(self, port: int) -> None:
        self._port = port
        self._context = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[str, bytes]:
        """What `Set-Cookie` says, and the answer; of an endless one its beginning."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=60, context=self._context
        )
        given = {"Content-Type": "application/json", **headers}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), given)
            answer = connection.getresponse()
            is_endless = path.startswith("/api/events")
            seen = answer.read1() if is_endless else answer.read()
            return answer.getheader("Set-Cookie") or "", seen
        finally:
            connection.close()

    def sign_in(self, user: str, password: str) -> tuple[str, str]:
        """At the second attempt, or a later one where the machine is too busy for a password: the
        cookie, and the token.
        """
        self.ask("POST", "/api/session", {"user": user, "password": f"{password}, wrong"})
        for _ in range(5):
            body = {"user": user, "password": password}
            cookie, answer = self.ask("POST", "/api/session", body)
            if cookie:
                return cookie.partition(";")[0], json.loads(answer)["token"]
            assert b"too busy" in answer or b"too many" in answer, (user, answer)
            time.sleep(15)  # four attempts a minute are not too many
        raise AssertionError(answer)


def test_secrets_are_where_they_belong_and_nowhere_else(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    port, state = free_tcp_port(), tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "epoch").write_text("0\n", encoding="ascii")
    add(state, "tank", DEVICE_KEY)
    for name, secret in (("page", PAGE_PASSWORD), ("broker", BROKER_PASSWORD)):
        (tmp_path / f"{name}.password").write_text(secret)
    hook, started = tmp_path / "hook", tmp_path / "started"
    hook.write_text(
        f"#!/bin/sh\ncat /proc/$$/environ /proc/$$/cmdline >>{started}\n"
        f'[ "$1" = well ] && echo {HOOK_KEY.hex()}\nexit 0\n'
    )
    hook.chmod(0o755)
    lines = f"""username = "gateway"
password_file = "broker.password"
ca_file = "authority.pem"
cert_file = "client.pem"
key_file = "client.key"
[admin]
listen = "127.0.0.1:{port}"
password_file = "page.password"
certificate = "server.pem"
key = "server.key"
[[admin_user]]
name = "anna"
role = "viewer"
password = "{hash_password(USER_PASSWORD)}"
[[admin_token]]
name = "program"
role = "operator"
token = "{hash_token(TOKEN)}"
[[udp]]
listen = "127.0.0.1:{free_udp_port()}"
security = "dtls-psk"
[dtls]
key_hook = "{hook}"
[log]
level = "debug"
"""
    pem = [
        line
        for each in (certificates.server, certificates.client)
        for line in certificates.key(each).read_text().splitlines()
    ]
    canaries = [
        *(form for each in (DEVICE_KEY, HOOK_KEY)
          for form in (each, each.hex().encode(), each.hex().upper().encode())),
        *(each.encode() for each in (PAGE_PASSWORD, USER_PASSWORD, BROKER_PASSWORD, TOKEN)),
        *(line.encode() for line in pem if len(line) > 40),
    ]  # fmt: skip
    seen: list[bytes] = []
    with GatewayProcess(tmp_path, NOWHERE, lines) as gateway:
        gateway.wait_for_log("status page on https", timeout_s=60.0)
        for name, key in (("tank", DEVICE_KEY), ("well", HOOK_KEY)):
            with client(gateway.port, name, key=key) as sensor:
                sensor.does(sensor.connecting())
                sensor.does(sensor.publishing(sensor.does(sensor.registering("a/b")), b"1", qos=1))
        page = Page(port)
        for user, password in ((OPERATOR, PAGE_PASSWORD), ("anna", USER_PASSWORD)):
            cookie, token = page.sign_in(user, password)
            canaries += [cookie.partition("=")[2].encode(), token.encode()]
            # The session itself has its token.
            paths = [each for each in FOLLOWED if each != "/api/session"]
            seen += [page.ask("GET", each, Cookie=cookie)[1] for each in paths]
        seen += [page.ask("GET", path, Authorization=f"Bearer {TOKEN}")[1] for path in FOLLOWED]
        hang_up(gateway)
        gateway.wait_for_log("reload: no key has another value", timeout_s=60.0)
        seen += [
            Path(f"/proc/{gateway.pid}/{each}").read_bytes() for each in ("cmdline", "environ")
        ]
        assert b"PATH=" in started.read_bytes(), "the environment of a child process is there"
        seen.append(started.read_bytes())
        for command in (("report", "report.tar.gz"), ("backup", "g.backup")):
            done = tidegate(*command, "--config", gateway.config_path, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            seen.append(done.stdout.encode() + done.stderr.encode())
        assert gateway.stop() == 0
    assert all(len(each) > 10 for each in canaries)
    seen.append(gateway.log.encode())
    for archive in ("report.tar.gz", "g.backup"):
        unpacked = tmp_path / f"{archive}.d"
        unpacked.mkdir()
        subprocess.run(
            [sys.executable, "-m", "tarfile", "-e", tmp_path / archive, unpacked], check=True
        )
        found = [each.read_bytes() for each in unpacked.rglob("*") if each.is_file()]
        assert found
        seen += found
        shutil.rmtree(unpacked)
    for canary in canaries:
        assert [each[:200] for each in seen if canary in each] == []
