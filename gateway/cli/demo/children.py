"""Child processes that never outlive the demo.

Rules: each child has a process group of its own, so that Ctrl-C reaches the demo alone and the
demo ends its children in order; and the kernel kills a child when the demo itself is killed
(PR_SET_PDEATHSIG, which needs no cooperation and survives `kill -9` of the demo). Output goes to a
file in the demo's folder: pipes would have to be drained, and a file can be kept.

Limits: a child has `END_S` seconds to obey SIGTERM, then it is killed; of a failed child's log the
last `EVIDENCE_LINES` lines, at most `EVIDENCE_BYTES`, are shown.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gateway.cli.demo.failure import DemoError

END_S = 5.0
EVIDENCE_LINES = 12
EVIDENCE_BYTES = 16_384
PR_SET_PDEATHSIG = 1  # linux/prctl.h

LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here: after a fork is no time to import


def kill_with(parent: int) -> Callable[[], None]:
    """What a new child does before it becomes the program."""

    def before_exec() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended between fork and prctl: nobody would tell us
            os._exit(1)

    return before_exec


@dataclass(slots=True)
class Child:
    name: str
    log: Path
    running: asyncio.subprocess.Process

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        read: Path | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Self:
        """Start `command`, with the file `read` as its standard input, as `user` if given."""
        log = folder / f"{name}.log"
        identity: dict[str, Any] = {} if user is None else {"user": user, "extra_groups": []}
        source = Path(os.devnull) if read is None else read
        with source.open("rb") as stdin, log.open("ab") as output:
            running = await asyncio.create_subprocess_exec(
                *command,
                stdin=stdin,
                stdout=output,
                stderr=output,
                env=environment,
                process_group=0,
                preexec_fn=kill_with(os.getpid()),
                **identity,
            )
        return cls(name, log, running)

    async def ended(self) -> DemoError:
        """Wait until the child ends without having been told to; answers with the reason."""
        code = await self.running.wait()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return self.failed(f"The {self.name} {how}.")

    def failed(self, message: str) -> DemoError:
        return DemoError(message, evidence=self.last_lines())

    def last_lines(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - EVIDENCE_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-EVIDENCE_LINES:])

    async def end(self) -> None:
        if self.running.returncode is not None:
            return
        self.running.terminate()
        try:
            async with asyncio.timeout(END_S):
                await self.running.wait()
        except TimeoutError:
            self.running.kill()
            await self.running.wait()
