"""The readings that wait, from the files of the journal; a gateway may be writing to them."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import merge
from pathlib import Path
from uuid import UUID

from gateway.cli.exit_codes import ExitCode
from gateway.effects import Forward
from gateway.journal.files import OsFiles
from gateway.journal.group import BacklogRequest, Stretch
from gateway.journal.reading import read_backlog, read_file
from gateway.journal.recovery import Clocks, Recovery
from gateway.journal.rules import SEGMENT_BYTES_MAX, JournalError
from gateway.journal.segment import HEADER_BYTES, NO_BOOT
from gateway.links.clock import now, unix_ms_at_zero

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class BufferError(Exception):
    """Why there is no answer, in a sentence, and how the command ends."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def waiting(folder: Path, on_look: Callable[[], None] = lambda: None) -> Iterator[Forward]:
    """In the order in which they would go to the broker, `received_at` in this machine's monotonic
    seconds. `on_look` is called at each look at a file; the first reading comes after many. Raises
    BufferError.
    """
    with _failures_named(folder):
        if not folder.is_dir():
            raise BufferError(
                f"there is no journal at {folder}: nothing was stored there yet, or "
                "gateway.state_dir is another one",
                ExitCode.UNAVAILABLE,
            )
        yield from _unfinished(folder, on_look)


class _ReadOnly(OsFiles):
    """A segment that was freed after it was listed has nothing that waits."""

    def __init__(self, on_look: Callable[[], None]) -> None:
        self._on_look = on_look

    def open(self, path: Path, *, create: bool = False) -> int:
        assert not create
        self._on_look()
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _unfinished(folder: Path, on_look: Callable[[], None]) -> Iterator[Forward]:
    files, at = _ReadOnly(on_look), now()
    at_zero = unix_ms_at_zero()
    recovery = Recovery(
        lambda name, size: read_file(files, folder / name, 0, size),
        Clocks(at, at_zero, _boot_id(), recent_s=0.0),
    )
    recovery.run(files.names(folder), SEGMENT_BYTES_MAX)
    stretches = [
        Stretch(segment, 0, segment.end, HEADER_BYTES) for segment in recovery.ledger.segments
    ]
    backlog = _backlog(files, folder, BacklogRequest(stretches, at, at_zero))
    # The first are those that the broker has received but not settled: a few.
    yield from merge(recovery.recovered.received, backlog, key=lambda forward: forward.record)


def _backlog(files: _ReadOnly, folder: Path, request: BacklogRequest) -> Iterator[Forward]:
    while forwards := read_backlog(files, folder, request):
        yield from forwards


def _boot_id() -> bytes:
    try:
        return UUID(BOOT_ID.read_text().strip()).bytes
    except (OSError, ValueError):
        return NO_BOOT


@contextmanager
def _failures_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        message = f"no permission to read {folder}; run this as the gateway's user, or with sudo"
        raise BufferError(message, ExitCode.PERMISSION) from None
    except JournalError as error:
        raise BufferError(str(error.strerror or error), ExitCode.FAILURE) from None
    except OSError as error:
        message = f"{folder} cannot be read: {error.strerror or error}"
        raise BufferError(message, ExitCode.FAILURE) from None
