"""What this process may have of the system: descriptors, threads, memory, file sizes.

- At the start the soft limits are raised as far as is needed and the hard ones allow.
- What cannot be had is a `LimitError`: one sentence with the limit's name, its value, what is
  needed and how to raise it. It is an OSError, because at run time the links treat it like any
  other refusal of the system: they report it and try again.
- Checked before the event loop is made: libuv aborts the process when it gets no pipe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

UNLIMITED = resource.RLIM_INFINITY
MIB = 1 << 20

# main, journal, state, log, configuration, name look-up, and one to spare.
THREADS_MIN = 6
# Below this number the limit of threads is tried at the start; above, it is not what is short.
THREADS_PLENTY = 1024
# What all parts take of addresses on top of the interpreter, with the page in use: 55 MiB measured,
# and two more stacks.
MEMORY_BYTES_MIN = 72 * MIB
# What is advised where fewer descriptors would do, so that nobody has to raise it twice.
DESCRIPTORS_ADVISED = 256
# Below 256 KiB the interpreter runs out of stack in nested calls and the kernel ends the process.
STACK_BYTES_MIN = 1 * MIB
# A segment of the journal, its successor, and a state database of a thousand clients.
FILE_BYTES_MIN = 4 * MIB

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_M_ARENA_MAX = -8  # mallopt(3)
_NOT_MAPPED = re.compile("failed to map|cannot allocate|cannot map|Cannot allocate")


def write_no_core() -> None:
    """A dump of this process would have keys and passwords. Its children inherit that."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


class LimitError(OSError):
    """`strerror` is the sentence for the operator."""

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class Limit:
    """`unit_bytes`: what one of the shell's `ulimit` stands for; 1 for those that count."""

    name: str
    number: int
    what: str
    flag: str
    directive: str
    unit_bytes: int = 1

    def soft(self) -> int:
        return resource.getrlimit(self.number)[0]

    def hard(self) -> int:
        return resource.getrlimit(self.number)[1]

    def is_finite(self) -> bool:
        return self.soft() != UNLIMITED

    def shown(self, value: int) -> str:
        if value == UNLIMITED:
            return "unlimited"
        if self.unit_bytes == 1:
            return str(value)
        return f"{value // MIB} MiB" if value >= MIB else f"{value} bytes"

    def advice(self, needed: int | None = None) -> str:
        """How to raise it, in a shell and in a unit of systemd."""
        if needed is None:
            return f"raise it with `ulimit {self.flag} unlimited` or {self.directive}=infinity"
        in_shell = -(-needed // self.unit_bytes)
        return f"raise it with `ulimit {self.flag} {in_shell}` or {self.directive}={needed}"

    def raised(self, wanted: int) -> int:
        """The soft limit afterwards: at least `wanted` if the hard one allows that."""
        soft, hard = resource.getrlimit(self.number)
        if soft == UNLIMITED or soft >= wanted:
            return soft
        target = wanted if hard == UNLIMITED else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(self.number, (target, hard))
        return self.soft()


NOFILE = Limit("RLIMIT_NOFILE", resource.RLIMIT_NOFILE, "open files", "-n", "LimitNOFILE")
NPROC = Limit("RLIMIT_NPROC", resource.RLIMIT_NPROC, "threads of this user", "-u", "LimitNPROC")
AS = Limit("RLIMIT_AS", resource.RLIMIT_AS, "of addresses", "-v", "LimitAS", 1024)
DATA = Limit("RLIMIT_DATA", resource.RLIMIT_DATA, "of data", "-d", "LimitDATA", 1024)
STACK = Limit("RLIMIT_STACK", resource.RLIMIT_STACK, "of stack", "-s", "LimitSTACK", 1024)
FSIZE = Limit("RLIMIT_FSIZE", resource.RLIMIT_FSIZE, "for one file", "-f", "LimitFSIZE", 1024)
CPU = Limit("RLIMIT_CPU", resource.RLIMIT_CPU, "seconds of processor time", "-t", "LimitCPU")


# Before anything else is done


def make_ready(descriptors: int) -> None:
    """Raise what can be raised, and refuse what cannot work. Raises LimitError."""
    provide_descriptors(descriptors)
    _provide_stack()
    if AS.is_finite() or DATA.is_finite():
        _use_one_arena()
        need_memory(MEMORY_BYTES_MIN)
    if _threads_are_few():
        need_threads(THREADS_MIN)
    soft = FSIZE.soft()
    if soft != UNLIMITED and soft < FILE_BYTES_MIN:
        raise _too_little(FSIZE, soft, FILE_BYTES_MIN, errno.EFBIG)


def doubts() -> list[str]:
    """What will end or hinder the process later, by name."""
    if not CPU.is_finite():
        return []
    return [
        f"the kernel ends this process after {CPU.soft()} s of processor time (RLIMIT_CPU): "
        f"{CPU.advice()}"
    ]


def provide_descriptors(needed: int, wanted: int = 0) -> int:
    """How many files may be open now: `wanted` if possible, and `needed` beyond those that are
    open already, or LimitError.
    """
    needed += _open_descriptors()
    soft = NOFILE.raised(max(needed, wanted))
    if soft != UNLIMITED and soft < needed:
        advised = max(needed, DESCRIPTORS_ADVISED)
        raise _too_little(NOFILE, soft, needed, errno.EMFILE, advised)
    return soft


def need_memory(size: int) -> None:
    if not _can_map(size):
        raise no_memory(size)


def need_threads(count: int) -> None:
    """All at once, each for a moment."""
    done = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            started.append(threading.Thread(target=done.wait, daemon=True))
            started[-1].start()
    except RuntimeError:
        started.pop()
        raise no_thread(count) from None
    finally:
        done.set()
        for thread in started:
            thread.join()


def start_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """One that does not keep the process from ending. Raises LimitError."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise no_thread() from None
    return thread


def _threads_are_few() -> bool:
    found = pids_max()
    group_left = UNLIMITED if found is None else found[0] - found[1]
    return (
        (NPROC.is_finite() and NPROC.soft() < THREADS_PLENTY)
        or (group_left != UNLIMITED and group_left < THREADS_PLENTY)
        or AS.is_finite()
        or DATA.is_finite()
    )


def _provide_stack() -> None:
    """New threads get a stack of the soft limit, which can be too small for an interpreter."""
    soft = STACK.raised(STACK_BYTES_MIN)
    if soft != UNLIMITED and soft < STACK_BYTES_MIN:
        with contextlib.suppress(ValueError, RuntimeError):
            threading.stack_size(STACK_BYTES_MIN)


def _use_one_arena() -> None:
    """glibc reserves 64 MiB of addresses for each thread, which a limit of them counts in full."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # of glibc alone
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _open_descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 (the listing itself is one)
    except OSError:
        return 3


# Which limit it was


def _too_little(
    limit: Limit, soft: int, needed: int, number: int, advised: int | None = None
) -> LimitError:
    return LimitError(
        number,
        f"{limit.name} allows {limit.shown(soft)} {limit.what}, but at least "
        f"{limit.shown(needed)} are needed: {limit.advice(advised)}",
    )


def no_descriptor() -> str:
    """For EMFILE."""
    soft = NOFILE.soft()
    return (
        f"all {soft} files that this process may open are open (RLIMIT_NOFILE): "
        f"{NOFILE.advice(max(1024, 2 * soft))}"
    )


def no_thread(count: int | None = None) -> LimitError:
    """For a thread that could not be started."""
    needed = "" if count is None else f", {count} are needed"
    start = f"the system gives no more threads{needed}: "
    found = pids_max()
    if found is not None and found[1] >= found[0] - (count or 1):
        why = f"pids.max of the control group is {found[0]}; raise it with TasksMax="
    elif (AS.is_finite() or DATA.is_finite()) and not _can_map(2 * MIB + _stack_bytes()):
        why = _memory_limit()
    elif NPROC.is_finite():
        soft = NPROC.soft()
        why = f"RLIMIT_NPROC is {soft} for all processes of this user; {NPROC.advice(soft + 64)}"
    else:
        why = "kernel.threads-max or the memory of this machine is used up"
    return LimitError(errno.EAGAIN, start + why)


def no_memory(size: int | None = None) -> LimitError:
    needed = "" if size is None else f", {size // MIB} MiB more are needed"
    return LimitError(errno.ENOMEM, f"there is no more memory{needed}: {_memory_limit()}")


def named(error: BaseException) -> LimitError | None:
    """The limit behind an error, if it is one of those that only a limit causes."""
    if isinstance(error, LimitError):
        return error
    if isinstance(error, MemoryError):
        return no_memory()
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return no_thread()
    if isinstance(error, ImportError):  # of a library; one that is absent says so in other words
        return no_memory() if _NOT_MAPPED.search(str(error)) else None
    match error.errno if isinstance(error, OSError) else None:
        case errno.EMFILE:
            return LimitError(errno.EMFILE, no_descriptor())
        case errno.ENFILE:
            return LimitError(
                errno.ENFILE, "the whole machine has no descriptor left: raise sysctl fs.file-max"
            )
        case errno.ENOMEM:
            return no_memory()
        case errno.EFBIG if FSIZE.is_finite():
            soft = FSIZE.soft()
            return LimitError(
                errno.EFBIG,
                f"no file may become larger than {FSIZE.shown(soft)} (RLIMIT_FSIZE): "
                f"{FSIZE.advice()}",
            )
    return None


def pids_max(proc: Path = _PROC, groups: Path = _CGROUPS) -> tuple[int, int] | None:
    """How many threads the control group may have and has, of its tightest level; None: any."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "pids" not in controllers.split(","):
                continue
            top = groups / "pids" if controllers else groups
            folder = top / path.lstrip("/")
            for level in (folder, *folder.parents):
                with contextlib.suppress(OSError, ValueError):
                    most = (level / "pids.max").read_text().strip()
                    if most != "max":
                        found.append((int(most), int((level / "pids.current").read_text())))
                if level == top:
                    break
    return min(found, key=lambda each: each[0] - each[1], default=None)


def _memory_limit() -> str:
    for limit in (AS, DATA):
        if limit.is_finite():
            return f"{limit.name} is {limit.shown(limit.soft())}; {limit.advice()}"
    return "the memory of this machine is used up (`free -m`), or vm.overcommit_memory is 2"


def _stack_bytes() -> int:
    soft = STACK.soft()
    return threading.stack_size() or (2 * MIB if soft == UNLIMITED else soft)


def _can_map(size: int) -> bool:
    """For a moment and not touched: it costs nothing but the limit."""
    import mmap  # few have such a limit

    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return False
    return True
