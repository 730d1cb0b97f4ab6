"""What the parts give as the mark of their work: what counts as progress, and what does not."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from pathlib import Path

import pytest

from gateway.core.effects import RecordRelease, Store
from gateway.core.state_records import ClientId
from gateway.storage.journal.committer import JournalCommitter
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.transports.broker.link import BrokerLink
from gateway.transports.udp.link import UdpLink
from tests.storage.journal.support import BOOT, UNIX_MS_AT_ZERO, FaultyFiles, new_reading, options
from tests.storage.journal.test_committer import THEN, Heard
from tests.transports.eventually import eventually


class HangingFiles(OsFiles):
    """A card that does not come back from fdatasync until it is let go."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def sync_data(self, file: int) -> None:
        self.may_go_on.wait(20)
        super().sync_data(file)


def test_a_journal_thread_that_hangs_is_seen_and_one_that_works_is_not(tmp_path: Path) -> None:
    async def story() -> None:
        files, heard = HangingFiles(), Heard()
        journal = Journal(tmp_path, files, options())
        journal.open(0.0, UNIX_MS_AT_ZERO, BOOT)
        loop = asyncio.get_running_loop()
        committer = JournalCommitter(
            journal=journal, loop=loop, callbacks=heard.callbacks(), linger_s=0.0
        )
        assert committer.mark() is None
        committer.perform([Store(new_reading(1))])
        begun = committer.mark()
        assert begun is not None
        await eventually(lambda: committer.mark() != begun, "a job")
        hangs = committer.mark()
        await eventually(lambda: committer._worker.busy_s() > 0, "the thread is at work")
        assert committer.mark() == hangs
        assert not committer.waits_for_disk(), "it may still be our doing"
        files.may_go_on.set()
        await heard.until(lambda: bool(heard.stored))
        assert committer.mark() != hangs
        await committer.stop()

    asyncio.run(story())


def test_a_disk_that_refuses_everything_is_not_stuck(tmp_path: Path) -> None:
    """A new process would be refused as well: what waits is tried again, and that is progress."""
    broken = threading.Event()

    def refuse(_call: str) -> None:
        if broken.is_set():
            raise OSError(errno.EIO, "Input/output error")

    async def story() -> None:
        heard = Heard()
        journal = Journal(tmp_path, FaultyFiles(fault=refuse), options())
        journal.open(0.0, UNIX_MS_AT_ZERO, BOOT)
        committer = JournalCommitter(
            journal=journal,
            loop=asyncio.get_running_loop(),
            callbacks=heard.callbacks(),
            linger_s=0.0,
        )
        broken.set()
        committer.perform([Store(new_reading(1))])
        committer.perform([RecordRelease(ClientId("tank"), 7, THEN)])
        await heard.until(lambda: JournalState.FAILED in heard.states)
        marks = {committer.mark()}

        def goes_on() -> bool:
            marks.add(committer.mark())
            return None in marks or len(marks) >= 4

        await eventually(goes_on, "another try")
        broken.clear()
        await committer.stop()

    asyncio.run(story())


@pytest.mark.guarantee("9")
def test_datagrams_that_nobody_reads_are_seen() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        link = UdpLink(("127.0.0.1", 0), lambda _batch: None)
        link.open(loop)
        peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert link.mark() is None
        peer.sendto(b"\x02\x18", link.listening_on)
        assert link.mark() == 0
        await eventually(lambda: link.counters.received == 1, "a datagram")
        assert link.mark() is None
        link.close()
        assert link.mark() is None
        peer.close()

    asyncio.run(story())


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("ends", [False, True])
def test_a_connection_that_nobody_keeps_is_seen(ends: bool) -> None:
    async def story() -> None:
        def give_up() -> None:
            if ends:
                raise KeyError("a mistake of ours")

        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        link = BrokerLink(
            host,
            port,
            tls=None,
            on_open=give_up,
            on_bytes=lambda _: None,
            on_closed=lambda _reason, _by_broker: None,
            on_room=lambda: None,
            connect_timeout_s=5.0,
            reconnect_delay_s_min=60.0,
            reconnect_delay_s_max=60.0,
        )
        assert link.mark() is None
        link.start(asyncio.get_running_loop())
        task = link._task
        assert task is not None
        if ends:
            task.cancel()
            await asyncio.wait([task])
        assert link.mark() == ("ended" if ends else None)
        if not ends:
            await link.stop()
            assert link.mark() is None
        server.close()

    asyncio.run(story())
