"""The Unix socket: who asks is known, and what is known decides."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from gateway.admin.http import local_socket
from gateway.admin.http.listening import AdminError
from gateway.admin.http.local_socket import NONE, OPERATOR, VIEWER, LocalSocket, peer_of
from gateway.admin.http.sign_in import Accounts, Role
from gateway.cli.acting import NotDoneError, act_as
from gateway.cli.asking import NoAnswerError, Place, fetch, place_of
from gateway.config import load
from tests.admin.http_client import serving
from tests.admin.test_actions import Noted


def peer(group_id: int | None, group_role: int = VIEWER) -> local_socket.LocalPeer:
    here, there = socket.socketpair()
    with here, there:
        return peer_of(here, group_id, group_role)


def test_the_own_user_and_root_are_operators() -> None:
    found = peer(None)
    assert (found.pid, found.uid, found.role) == (os.getpid(), os.geteuid(), OPERATOR)


def test_others_are_what_their_group_is(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        pytest.skip("root is an operator always: its groups are looked at in the next test")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert peer(os.getegid()).role == VIEWER
    assert peer(4_000_000).role == NONE


def test_each_group_of_a_process_counts() -> None:
    credentials = local_socket._CREDENTIALS

    class Asked:
        def __init__(self, uid: int, gid: int, groups: tuple[int, ...]) -> None:
            self.answers = {
                socket.SO_PEERCRED: credentials.pack(7, uid, gid),
                local_socket._SO_PEERGROUPS: b"".join(
                    group.to_bytes(4, "little") for group in groups
                ),
            }

        def getsockopt(self, _level: int, option: int, _size: int) -> bytes:
            return self.answers[option]

    def role(gid: int, *groups: int) -> int:
        return peer_of(Asked(4_000_000, gid, groups), 50, OPERATOR).role  # type: ignore[arg-type]

    assert role(50) == OPERATOR
    assert role(1, 2, 50, 3) == OPERATOR
    assert role(1, 2, 3) == NONE


def test_it_is_for_user_and_group_and_takes_the_place_of_one_that_was_left(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 40) / "admin.sock"
    path.parent.mkdir()
    place = LocalSocket(path, "no such group")
    place.listening().close()
    with place.listening():
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with pytest.raises(AdminError, match="another process listens there"):
            place.listening()
    path.unlink()
    path.write_text("a file of somebody's")
    with pytest.raises(AdminError, match="it is no socket"):
        place.listening()
    assert path.read_text()


def test_on_it_no_password_is_needed(tmp_path: Path) -> None:
    # On port 1: on the usual one there may be a gateway.
    configuration = load(
        None,
        environment={"TIDEGATE_ADMIN__LISTEN": "127.0.0.1:1"},
        overrides=[f"gateway.state_dir={tmp_path}"],
    )
    assert place_of(configuration).sockets == (tmp_path / "admin.sock",)
    elsewhere = load(
        None,
        environment={},
        overrides=[f"gateway.state_dir={tmp_path}", "admin.listen=10.0.0.5:8080"],
    )
    assert place_of(elsewhere).sockets == ()

    async def story() -> None:
        noted = Noted()
        place = LocalSocket(tmp_path / "admin.sock", "no such group")
        async with serving(
            operating=noted, accounts=Accounts(anonymous=Role.NONE), socket=place
        ) as server:
            here = place_of(configuration)
            status, body = await asyncio.to_thread(fetch, here, "/api/status")
            assert status == 200
            assert b'"greenhouse"' in body
            done = await asyncio.to_thread(act_as, configuration, None, "pause", {})
            assert (done, noted.asked) == ("pause", ["pause"])
            with pytest.raises(NotDoneError, match="client is a text"):
                await asyncio.to_thread(act_as, configuration, None, "forget", {})
            with pytest.raises(NoAnswerError):
                await asyncio.to_thread(fetch, Place(None), "/api/status")
            assert server.listening_on[1]
        with pytest.raises(NoAnswerError):  # what is left does not answer
            await asyncio.to_thread(fetch, here, "/api/status")

    asyncio.run(story())
