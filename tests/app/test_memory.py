"""What is let go of once all runs: code and constants as their files have them, and no more."""

import ctypes
import subprocess
import sys
from pathlib import Path

from gateway.app.memory import unchanged_parts

# As the kernel writes it, shortened: constants, code, code that was relocated, what was written to,
# code of no file; and constants that were relocated, in memory and in swap.
MAPPINGS = """\
7f0000000000-7f0000001000 r--p 00000000 08:01 42                         /usr/lib/libx.so
Size:                  4 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
7f0000001000-7f0000004000 r-xp 00001000 08:01 42                         /usr/lib/libx.so
Size:                 12 kB
Rss:                   8 kB
Anonymous:             0 kB
LazyFree:              0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
7f0000008000-7f0000009000 r-xp 00001000 08:01 43                         /usr/lib/liby.so
Rss:                   4 kB
Anonymous:             4 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
7f000000a000-7f000000b000 rwxp 00000000 08:01 44                         /usr/lib/libz.so
Anonymous:             0 kB
Swap:                  0 kB
7f000000b000-7f000000c000 rw-p 00000000 08:01 44                         /usr/lib/libz.so
Anonymous:             0 kB
Swap:                  0 kB
7f000000c000-7f000000d000 r-xp 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7f000000d000-7f000000e000 r--p 00002000 08:01 44                         /usr/lib/libz.so
Anonymous:             4 kB
Swap:                  0 kB
7f000000e000-7f000000f000 r--p 00003000 08:01 44                         /usr/lib/libz.so
Anonymous:             0 kB
Swap:                  4 kB
7f0000010000-7f0000011000 r--s 00000000 08:01 46                         /usr/share/shared
Anonymous:             0 kB
Swap:                  0 kB
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
Swap:                  0 kB
7ffc00002000-7ffc00003000 r-xp 00000000 08:01 45                         /usr/bin/with a blank
Anonymous:             0 kB
Swap:                  0 kB
"""
# Beside what it says before and after, it must go on to work.
LETTING_GO = """
import resource, zlib
from pathlib import Path
from gateway.app.memory import settle

def rss_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024

before = rss_kib()
settle()
after = rss_kib()
import decimal, sqlite3
assert sqlite3.connect(":memory:").execute("select 6 * 7").fetchone() == (42,)
assert zlib.decompress(zlib.compress(b"reading")) == b"reading"
print(before, after)
"""


def test_only_what_is_as_its_file_has_it_is_let_go_of() -> None:
    assert unchanged_parts(MAPPINGS) == [
        (0x7F0000000000, 0x7F0000001000),
        (0x7F0000001000, 0x7F0000004000),
        (0x7FFC00002000, 0x7FFC00003000),
    ]


def test_this_very_process_has_some() -> None:
    found = unchanged_parts(Path("/proc/self/smaps").read_text())
    place = ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value
    assert place is not None
    assert any(begin <= place < end for begin, end in found)


def test_it_makes_a_process_smaller_and_breaks_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LETTING_GO], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    assert after < before
