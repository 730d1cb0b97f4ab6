"""The readings that wait, from the files of the journal; a gateway may be writing to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error
from gateway.config.mounts import taken_bytes
from gateway.config.settings import MIB
from gateway.core.values import Reading
from gateway.host.causes import brief
from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.inspect import Inspection
from gateway.storage.journal.options import JournalError
from gateway.storage.journal.recovery import Clocks
from gateway.transports.clock import now, unix_ms_at_zero

# From here on it takes seconds on a small board before the first reading comes.
LARGE_BYTES = 32 * MIB


class BufferError(Exception):
    """Why there is no answer, in a sentence, and how the command ends."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def waiting(folder: Path) -> Iterator[Reading]:
    """In the order in which they would go to the broker, `received_at` in this machine's monotonic
    seconds. Raises BufferError.
    """
    with _failures_named(folder):
        if not folder.is_dir():
            raise BufferError(
                f"there is no journal at {folder}: nothing was stored there yet, or "
                "gateway.state_dir is another one",
                ExitCode.UNAVAILABLE,
            )
        size = taken_bytes(folder)
        if size > LARGE_BYTES:
            print_error(f"reading {size // MIB} MiB in {folder}")
        look = Inspection(folder, Clocks(now(), unix_ms_at_zero(), read_boot_id(), recent_s=0.0))
        for damage in look.report.damaged:
            print_error(f"damaged: {damage}")
        yield from look.unfinished()


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
        message = f"{folder} cannot be read: {brief(error)}"
        raise BufferError(message, ExitCode.FAILURE) from None
