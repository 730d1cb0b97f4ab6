"""The readings that wait, from the files of the journal; a gateway may be writing to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.cli.exit_codes import ExitCode
from gateway.effects import Forward
from gateway.journal.rules import JournalError


class BufferError(Exception):
    """Why there is no answer, in a sentence, and how the command ends."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def waiting(folder: Path) -> Iterator[Forward]:
    """In the order in which they would go to the broker. Raises BufferError."""
    with _failures_named(folder):
        if not folder.is_dir():
            raise BufferError(
                f"there is no journal at {folder}: nothing was stored there yet, or "
                "gateway.state_dir is another one",
                ExitCode.UNAVAILABLE,
            )
        yield from scan(folder)


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
