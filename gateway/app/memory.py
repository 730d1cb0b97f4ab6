"""Once all runs: what the start has used goes back to the system, some megabytes of it.

What is there now stays until the end, so the garbage collector need never look at it again. Freed
memory is returned. And code that only the start has run, and constants that only it has read, such
as what a library relocates itself by, are let go of: of every library, a half of what is resident.
It stays in the system's cache of files, and is the first to leave it.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import gc
import re
from pathlib import Path

# The default looks at everything after a few thousand new objects; with 100,000 sessions one look
# takes a third of a second. The core makes no reference cycles, so there is little to find.
GC_THRESHOLD = (100_000, 50, 50)

_MAPPINGS = Path("/proc/self/smaps")
# Code and constants, of a file, of which this process has changed nothing, in memory or in swap:
# only then are the file's own bytes what comes back. (Relocations in code are rare, but 32-bit ARM
# knows them; constants with addresses in them have them everywhere.)
_UNCHANGED = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]\d* +/.*\n"
    r"(?:\w+: .*\n)*?Anonymous: +0 kB\n(?:\w+: .*\n)*?Swap: +0 kB$",
    re.MULTILINE,
)
_MADV_DONTNEED = 4
# Python reads each of these from disk when it is first used, which would be in the event loop.
_CODECS = ("ascii", "latin-1", "unicode_escape", "utf-8-sig")


def settle() -> None:
    """To be called once, when all parts run."""
    for codec in _CODECS:
        codecs.lookup(codec)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()
    with contextlib.suppress(AttributeError, OSError):  # of glibc alone
        c = ctypes.CDLL(None)
        c.malloc_trim(0)
        for begin, end in unchanged_parts(_MAPPINGS.read_text()):
            c.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def unchanged_parts(mappings: str) -> list[tuple[int, int]]:
    """Where code and constants of files begin and end, from the text of /proc/PID/smaps."""
    return [(int(begin, 16), int(end, 16)) for begin, end in _UNCHANGED.findall(mappings)]
