"""Puts a program's files where they belong, and reads back that they are there.

Three ways, for three kinds of boards:

- `ReplPlacing`: by snippets at the REPL. For boards whose MicroPython mpremote cannot serve (1.9
  has neither stat nor hashes); each file is read back whole.
- `MpremotePlacing`: by mpremote; the board computes the hashes.
- `FolderPlacing`: a folder is the board, such as a mounted file system or a simulated board.

Rules
- The file that starts the program is taken away first and comes last. So a board that lost its
  power or its cable in between starts no half a program, and the next attempt begins where that
  ended: files that are there already are not sent again.
- What was placed is compared by SHA-256 before anybody is told that it is there.
"""

from __future__ import annotations

import ast
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gateway.flashing.console import Console, SnippetError
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.program import STARTS, BoardFile
from gateway.flashing.programs import needed_program, run
from gateway.flashing.report import Report

CHUNK_OCTETS = 64
ATTEMPTS_MAX = 3
REBOOT_S_MAX = 20.0
STOP_S_MAX = 3.0  # of a board that answered a moment ago
MPREMOTE_S_MAX = 600.0
MPREMOTE_SILENT_S = 10.0  # it says each file as it begins it
MPREMOTE_OCTETS_PER_S_MIN = 2000  # a line of 115,200 baud carries 3,000, as text
SECRET_MODE, FILE_MODE = 0o600, 0o644


class Placing(Protocol):
    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        """SHA-256 of those that are there."""

    def remove(self, path: str) -> None:
        """If it is there."""

    def put(self, files: Sequence[BoardFile], report: Report) -> None: ...


def place(placing: Placing, files: Sequence[BoardFile], report: Report) -> int:
    """How many had to be sent. Raises FlashError."""
    wanted = {file.path: file.digest for file in files}
    there = placing.digests(list(wanted))
    missing = [file for file in files if there.get(file.path) != file.digest]
    if not missing:
        return 0
    starting = [file for file in files if file.path == STARTS]
    missing = [file for file in missing if file.path != STARTS] + starting
    placing.remove(STARTS)
    for _ in range(ATTEMPTS_MAX):
        placing.put(missing, report)
        there = placing.digests([file.path for file in missing])
        wrong = [file for file in missing if there.get(file.path) != file.digest]
        if not wrong:
            return len(missing)
        report.print_line(f"{', '.join(file.path for file in wrong)} did not arrive whole; again")
        missing = wrong
    placing.remove(STARTS)
    text = f"{wrong[0].path} did not arrive whole in {ATTEMPTS_MAX} attempts: try another cable"
    raise FlashError(Failure.CUT, text)


class FolderPlacing:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        found = {}
        for path in paths:
            place = self._folder / path
            if place.is_file():
                found[path] = hashlib.sha256(place.read_bytes()).hexdigest()
        return found

    def remove(self, path: str) -> None:
        try:
            (self._folder / path).unlink(missing_ok=True)
        except OSError as error:
            raise self._why(error) from None

    def put(self, files: Sequence[BoardFile], report: Report) -> None:
        for number, file in enumerate(files, start=1):
            try:
                self._write(file)
            except OSError as error:
                raise self._why(error) from None
            report.at("copying", number, len(files))

    def _write(self, file: BoardFile) -> None:
        path = self._folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = SECRET_MODE if file.is_secret else FILE_MODE
        path.unlink(missing_ok=True)  # so that the mode holds from its first byte
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(file.octets)
            opened.flush()
            os.fsync(descriptor)

    def _why(self, error: OSError) -> FlashError:
        text = f"{error.filename or self._folder} cannot be written: {error.strerror}"
        return FlashError(Failure.FOLDER, text)


class ReplPlacing:
    """The console is at the raw REPL."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        there = ast.literal_eval(self._console.ask("import os\nprint(os.listdir())"))
        return {path: self._digest(path) for path in paths if path in there}

    def _digest(self, path: str) -> str:
        """Of what is read back."""
        snippet = (
            f"f=open({path!r},'rb')\nwhile True:\n b=f.read({CHUNK_OCTETS})\n"
            " if not b:break\n print(b)\nf.close()"
        )
        try:
            lines = self._console.ask(snippet).splitlines()
            octets = b"".join(ast.literal_eval(line) for line in lines)
        except (SnippetError, ValueError, SyntaxError):  # the line damaged it
            return ""
        return hashlib.sha256(octets).hexdigest()

    def remove(self, path: str) -> None:
        try:
            self._console.ask(f"import os\nif {path!r} in os.listdir():\n os.remove({path!r})")
        except SnippetError as error:
            raise FlashError(Failure.CUT, f"the board cannot remove {path}: {error}") from None

    def put(self, files: Sequence[BoardFile], report: Report) -> None:
        total = sum(len(file.octets) for file in files)
        done = 0
        for file in files:
            for _ in range(ATTEMPTS_MAX):
                if self._written(file, report, done, total):
                    break  # else the line has damaged a snippet, or lost one
            done += len(file.octets)

    def _written(self, file: BoardFile, report: Report, done: int, total: int) -> bool:
        """Raises FlashError when the board is gone, or full."""
        try:
            self._console.run(f"f=open({file.path!r},'wb')")
            for at in range(0, len(file.octets), CHUNK_OCTETS):
                chunk = file.octets[at : at + CHUNK_OCTETS]
                self._console.run(f"f.write({chunk!r})")
                report.at("uploading", done + at + len(chunk), total)
            self._console.run("f.close()")
        except SnippetError as error:
            raise_if_full(error)
        except FlashError as error:
            try:
                self._console.stop(STOP_S_MAX)
            except FlashError:
                raise error from None
        else:
            return True
        return False


def raise_if_full(error: SnippetError) -> None:
    if any(word in str(error) for word in ("ENOSPC", "No more storage", "28")):
        raise FlashError(Failure.WRONG, f"the board has no room: {error}") from None


DIGESTS = """
import binascii, hashlib
def d(p):
 try:
  f = open(p, "rb")
 except OSError:
  return
 h = hashlib.sha256()
 b = bytearray(256)
 while True:
  n = f.readinto(b)
  if not n:
   break
  h.update(memoryview(b)[:n])
 f.close()
 print(binascii.hexlify(h.digest()).decode(), p)
"""


class MpremotePlacing:
    """The port is closed while mpremote has it."""

    def __init__(self, port: str) -> None:
        """Raises FlashError when mpremote is not installed."""
        self._port = port
        self._program = needed_program("mpremote")

    def digests(self, paths: Sequence[str]) -> dict[str, str]:
        with Console(self._port) as console:
            console.stop()
            try:
                console.ask(DIGESTS)
                lines = [console.ask(f"d({path!r})").split() for path in paths]
            except SnippetError as error:
                text = f"{self._port}: this MicroPython cannot hash ({error}); install a newer one"
                raise FlashError(Failure.WRONG, text) from None
        return {line[1]: line[0] for line in lines if len(line) == 2}

    def remove(self, path: str) -> None:
        """And start again without it: its watchdog would end what is to come."""
        with Console(self._port) as console:
            console.stop()
            there = console.ask(f"import os\nprint({path!r} in os.listdir())").strip()
            if there != "True":
                return
            console.run(f"os.remove({path!r})")
            console.write(b"import machine\nmachine.reset()\x04")
        _wait_for(self._port)

    def put(self, files: Sequence[BoardFile], report: Report) -> None:
        with tempfile.TemporaryDirectory(prefix="tidegate-") as name:
            command = [self._program, "connect", self._port, *self._folders(files)]
            for number, file in enumerate(files):
                source = Path(name, str(number))
                source.touch(SECRET_MODE)
                source.write_bytes(file.octets)
                command += ["+", "fs", "cp", str(source), f":{file.path}"]
            copied = 0

            def hear(line: str) -> None:
                nonlocal copied
                if line.startswith("cp "):
                    copied += 1
                    report.at("uploading", copied, len(files))

            longest = max(len(file.octets) for file in files)
            silence_s = MPREMOTE_SILENT_S + longest / MPREMOTE_OCTETS_PER_S_MIN
            ended = run(command, hear, timeout_s=MPREMOTE_S_MAX, silence_s=silence_s)
        if ended.code:
            raise self._why(ended.last_words, copied, len(files))

    def _folders(self, files: Sequence[BoardFile]) -> list[str]:
        """One snippet that makes those that are missing."""
        names = sorted(
            {str(parent) for file in files for parent in Path(file.path).parents} - {"."}
        )
        snippet = "import os\n"
        for folder in names:
            snippet += f"try:\n os.mkdir({folder!r})\nexcept OSError:\n pass\n"
        return ["exec", snippet]

    def _why(self, last_words: str, copied: int, total: int) -> FlashError:
        if "ENOSPC" in last_words or "No space" in last_words:
            return FlashError(Failure.WRONG, "the board has no room for all of the program")
        text = (
            f"uploading broke off after {copied} of {total} files ({last_words}): plug the board "
        )
        advice = "in again, and begin again; nothing of it has started"
        return FlashError(Failure.CUT, f"{text}{advice}")


def _wait_for(port: str) -> None:
    """Boards with USB of their own are away for a moment."""
    deadline = time.monotonic() + REBOOT_S_MAX
    while True:
        try:
            with Console(port) as console:
                console.stop(2.0)
                return
        except FlashError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
