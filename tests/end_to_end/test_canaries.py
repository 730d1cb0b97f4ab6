"""A canary in the place of each secret: it is nowhere but where it belongs.

A running gateway at debug level, its page as operator and as viewer by every path, the archive of
`tidegate report`, a backup without secrets, and the arguments and environment of the process.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

from gateway.admin.http.passwords import hash_password, hash_token
from gateway.admin.http.sign_in import OPERATOR
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from tests.admin.test_routes import ROWS
from tests.app.service.test_device_keys import add
from tests.app.service.test_reload import NOWHERE, hang_up
from tests.cli.tidegate import tidegate
from tests.transports.certificates import Certificates

DEVICE_KEY = b"canary device key"
PAGE_PASSWORD = "canary-of-the-page"
USER_PASSWORD = "canary-of-a-user"
BROKER_PASSWORD = "canary-of-the-broker"
TOKEN = "tg_canary0123456789012345678901234567890123456"
BUFFER = ("/api/buffer/peek", "/api/buffer/export")  # of readings alone
FOLLOWED = [
    path for method, path in ROWS if method == "GET" and "<" not in path and path not in BUFFER
]


class Page:
    def __init__(self, port: int) -> None:
        self._port = port
        self._context = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[str, bytes]:
        """What `Set-Cookie` says, and the answer; of an endless one its beginning."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=10, context=self._context
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


def test_secrets_are_where_they_belong_and_nowhere_else(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    port, state = free_tcp_port(), tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "epoch").write_text("0\n", encoding="ascii")
    add(state, "tank", DEVICE_KEY)
    for name, secret in (("page", PAGE_PASSWORD), ("broker", BROKER_PASSWORD)):
        (tmp_path / f"{name}.password").write_text(secret)
    lines = f"""username = "gateway"
password_file = "broker.password"
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
[log]
level = "debug"
"""
    pem = certificates.key(certificates.server).read_text().splitlines()
    canaries = [
        DEVICE_KEY, DEVICE_KEY.hex().encode(), DEVICE_KEY.hex().upper().encode(),
        *(each.encode() for each in (PAGE_PASSWORD, USER_PASSWORD, BROKER_PASSWORD, TOKEN)),
        *(line.encode() for line in pem if len(line) > 40),
    ]  # fmt: skip
    seen: list[bytes] = []
    with GatewayProcess(tmp_path, NOWHERE, lines) as gateway:
        gateway.wait_for_log("status page on https", timeout_s=60.0)
        page = Page(port)
        for user, password in ((OPERATOR, PAGE_PASSWORD), ("anna", USER_PASSWORD)):
            page.ask("POST", "/api/session", {"user": user, "password": f"{password}, wrong"})
            body = {"user": user, "password": password}
            cookie, answer = page.ask("POST", "/api/session", body)
            cookie = cookie.partition(";")[0]
            assert cookie, (user, answer)
            canaries += [cookie.partition("=")[2].encode(), json.loads(answer)["token"].encode()]
            # The session itself has its token.
            paths = [each for each in FOLLOWED if each != "/api/session"]
            seen += [page.ask("GET", each, Cookie=cookie)[1] for each in paths]
        seen += [page.ask("GET", path, Authorization=f"Bearer {TOKEN}")[1] for path in FOLLOWED]
        hang_up(gateway)
        gateway.wait_for_log("reload: no key has another value", timeout_s=60.0)
        seen += [
            Path(f"/proc/{gateway.pid}/{each}").read_bytes() for each in ("cmdline", "environ")
        ]
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
