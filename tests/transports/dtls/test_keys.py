import asyncio
import http.server
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.transports.dtls.keys import KNOWN_S, UNKNOWN_S, KeyHook, keys_in, name_of
from tests.support.dtls_client import DtlsClient
from tests.transports.dtls.listening import HERE, KEY, OTHER_KEY, Listening, keys


def test_names_that_a_device_can_have() -> None:
    assert name_of("Wärme 1".encode()) == "Wärme 1"
    for other in (b"", b"\xff", b"a" * 129, b"-rf", b"a\nb", b"\x00"):
        assert name_of(other) is None


def test_an_answer_is_one_key_or_two() -> None:
    (key,) = keys_in(KEY.hex().encode() + b"\n", "tank")
    assert (key.name, key.epoch, key.secret) == ("tank", 1, KEY)
    newest, older = keys_in(f"{OTHER_KEY.hex()}\n{KEY.hex()}\n".encode(), "tank")
    assert (newest.secret, newest.epoch, older.secret, older.epoch) == (OTHER_KEY, 2, KEY, 1)
    assert keys_in(b"\n", "tank") == ()
    for other in (b"<html>", b"00", b"00" * 65, b"\xff" * 16, b"\n".join([b"00" * 16] * 3)):
        with pytest.raises(ValueError, match="key"):
            keys_in(other, "tank")


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """Knows one name, and notes what it was asked."""
    path = tmp_path / "hook"
    path.write_text(
        f'#!/bin/sh\necho "$1" >> {tmp_path}/asked\n'
        f'case "$1" in\ntank) echo {KEY.hex()};;\nslow) sleep 60;;\nbad) exit 3;;\nesac\n'
    )
    path.chmod(0o755)
    return path


def test_a_command_is_asked_once_in_a_while(command: Path) -> None:
    hook, times = KeyHook(str(command)), [100.0]

    async def ask(name: str) -> bool:
        return await hook.ask(name, lambda: times[0])

    assert hook.known("tank", 100.0) is None
    assert asyncio.run(ask("tank"))
    known = hook.known("tank", 100.0 + KNOWN_S - 1)
    assert known is not None
    assert [each.secret for each in known] == [KEY]
    assert hook.known("tank", 100.0 + KNOWN_S) is None
    assert asyncio.run(ask("well; touch x"))
    assert hook.known("well; touch x", 100.0 + UNKNOWN_S - 1) == ()
    asked = (command.parent / "asked").read_text().splitlines()
    assert asked == ["tank", "well; touch x"]


def test_a_hook_that_fails_or_hangs_answers_nothing(
    command: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = KeyHook(str(command), timeout_s=0.3)
    for name in ("bad", "slow"):
        assert not asyncio.run(hook.ask(name, lambda: 0.0))
        assert hook.known(name, 0.0) is None
    assert len(caplog.records) == 1  # once until it answers again


class _Keys(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known = self.path == "/keys?site=7&identity=tank+1"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        if is_known:
            self.wfile.write(KEY.hex().encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Keys)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys?site=7"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_url_is_asked_with_the_name(url: str) -> None:
    hook = KeyHook(url)
    assert asyncio.run(hook.ask("tank 1", lambda: 0.0))
    assert asyncio.run(hook.ask("well", lambda: 0.0))
    known = hook.known("tank 1", 1.0)
    assert known is not None
    assert known[0].secret == KEY
    assert hook.known("well", 1.0) == ()


def test_a_handshake_waits_for_the_hook_and_the_loop_does_not(
    command: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def connect(name: str) -> tuple[Listening, DtlsClient]:
        listening = Listening(keys(), hook=KeyHook(str(command)))
        client = DtlsClient(name, KEY)
        assert not listening.shake_hands(client)
        for _ in range(200):
            await asyncio.sleep(0.02)
            for each in listening.air.taken(HERE):
                client.receive(each)
            if client.is_open or client.problem:
                break
        return listening, client

    listening, client = asyncio.run(connect("tank"))
    assert client.is_open
    listening.receive(HERE, client.sealed(b"hello"))
    assert listening.heard == [(HERE, b"hello")]
    assert listening.identities == ["psk:tank"]
    _, refused = asyncio.run(connect("well"))
    assert not refused.is_open
    assert refused.problem is not None
    assert "unknown psk identity" in refused.problem
    assert KEY.hex() not in caplog.text
    assert repr(KEY) not in caplog.text
