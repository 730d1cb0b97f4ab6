"""How long processes waited for a processor that others had: it is no fault of theirs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def waited_s(pid: int) -> float:
    """Of all threads of this process and of all below it, in its life so far. 0 where the kernel
    does not count it.
    """
    total_ns, pids = 0, [pid]
    while pids:
        # Whoever has ended meanwhile is left out.
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pids.pop()}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
                total_ns += int((task / "schedstat").read_text().split()[1])
    return total_ns / 1e9
