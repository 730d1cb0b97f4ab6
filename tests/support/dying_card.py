"""A card that dies: an ext4 of its own on a loop device, which the kernel makes fail for real."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

# EXT4_IOC_SHUTDOWN, and its flag for "the log is not written any more".
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2


@dataclass
class Card:
    path: Path
    image: Path
    device: str

    def turn_read_only(self) -> None:
        """As after an error of the medium (errors=remount-ro), with all files open as they are."""
        trigger = Path("/sys/fs/ext4", Path(self.device).name, "trigger_fs_error")
        trigger.write_text("tests\n", encoding="ascii")

    def die(self) -> None:
        """From now on every read and every write fails (EIO)."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(folder)

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def replug(self, options: str = "rw") -> None:
        """Taken out, checked, and put in again; nothing may be open on it."""
        subprocess.run(["umount", str(self.path)], check=True)
        # 1: errors were corrected.
        checked = subprocess.run(["e2fsck", "-fy", self.device], capture_output=True, check=False)
        assert checked.returncode in (0, 1), checked.stdout
        self.mount(options)

    def mount(self, options: str = "rw") -> None:
        options = f"{options},errors=remount-ro"
        subprocess.run(["mount", "-o", options, self.device, str(self.path)], check=True)


@contextmanager
def dying_card(place: Path, megabytes: int = 48) -> Iterator[Card]:
    if os.geteuid() != 0:
        pytest.skip("not run: only root may mount a file system")
    for tool in ("mkfs.ext4", "e2fsck", "losetup"):
        if shutil.which(tool) is None:
            pytest.skip(f"not run: no {tool}")
    image = place.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    found = subprocess.run(
        ["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"not run: {found.stderr.strip()}")
    place.mkdir(exist_ok=True)
    card = Card(place, image, found.stdout.strip())
    try:
        card.mount()
        try:
            yield card
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
    finally:
        subprocess.run(["losetup", "--detach", card.device], check=True)
