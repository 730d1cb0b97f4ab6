"""Disks that hang: a real one that answers nothing, a real one that is frozen, and one of ours."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_LAZY = 2  # MNT_DETACH of mount(2)

# A gateway whose disk hangs while the file that the first argument names is there. What comes
# before the colon is replaced by what waits; see the modules.
HELD = """
import os, sys, time
hold = sys.argv.pop(1)
def wait():
    while os.access(hold, os.F_OK):
        time.sleep(0.01)
from gateway.admin import snapshot
from gateway.presence import line_file
from gateway.storage.state import committer, store
def held(owner, name):
    done = getattr(owner, name)
    def waiting(*given, **named):
        wait()
        return done(*given, **named)
    setattr(owner, name, waiting)
held(snapshot.TimedFiles, "sync_data")
held(store.StateStore, "commit")
held(store.StateStore, "close")
held(line_file, "_private")
committer.SLOW_S = 0.5
from gateway.__main__ import main
sys.exit(main())
"""


def held_by(hold: Path) -> tuple[str, ...]:
    """The command of a gateway."""
    return (sys.executable, "-c", HELD, str(hold))


@contextmanager
def unanswering_folder(place: Path) -> Iterator[Path]:
    """Whatever looks into it waits for a FUSE file system that nobody serves, until the end."""
    if os.geteuid() != 0:
        pytest.skip("not run: only root may mount a file system that hangs")
    libc = ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"not run: /dev/fuse: {error.strerror}")
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    try:
        if libc.mount(b"unanswering", os.fsencode(place), b"fuse", 0, options) != 0:
            pytest.skip(f"not run: mount: {os.strerror(ctypes.get_errno())}")
        try:
            yield place
        finally:
            libc.umount2(os.fsencode(place), _LAZY)
    finally:
        os.close(server)  # whoever waits gets an error


@contextmanager
def freezable_folder(place: Path, megabytes: int = 32) -> Iterator[Path]:
    """An ext4 of its own, for `fsfreeze`."""
    if os.geteuid() != 0:
        pytest.skip("not run: only root may freeze a file system")
    for tool in ("mkfs.ext4", "fsfreeze"):
        if shutil.which(tool) is None:
            pytest.skip(f"not run: no {tool}")
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    place.mkdir()
    mounting = ["mount", "-o", "loop", str(image), str(place)]
    mounted = subprocess.run(mounting, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"not run: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(place)], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def freeze(place: Path) -> None:
    subprocess.run(["fsfreeze", "--freeze", str(place)], check=True)


def thaw(place: Path) -> None:
    subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True)
