"""Who has a device: the very device, whatever it is called, and no other one of the same name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.transports.port_owner import device_owner

# Opens the terminal of this number in a devpts of its own, as a container has one, and waits.
IN_A_CONTAINER = """
import os, pty, subprocess, sys
subprocess.run(["mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", "/dev/pts"],
               check=True)
number, held = int(sys.argv[1]), []
while True:
    master = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
    import fcntl, struct
    own = struct.unpack("i", fcntl.ioctl(master, 0x80045430, b"    "))[0]
    fcntl.ioctl(master, 0x40045431, struct.pack("i", 0))
    held.append(master)
    if own >= number:
        break
held.append(os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_name_of_the_device_is_the_device(tmp_path: Path) -> None:
    master, slave = os.openpty()
    try:
        name = os.ttyname(slave)
        link = tmp_path / "by-id"
        link.symlink_to(name)
        ours = "this program itself, under another name of the port,"
        assert device_owner(str(link)) == ours
        os.close(slave)
        assert device_owner(name) is None
        program = "import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print(flush=True)"
        command = [sys.executable, "-c", f"{program}; sys.stdin.read()", name]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
            assert other.stdout is not None
            other.stdout.readline()
            assert f"(process {other.pid})" in str(device_owner(str(link)))
            other.communicate()
    finally:
        os.close(master)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root may have other terminals")
def test_a_terminal_of_a_container_is_another_one_of_the_same_name() -> None:
    master, slave = os.openpty()
    try:
        name = os.ttyname(slave)
        os.close(slave)
        program = [sys.executable, "-c", IN_A_CONTAINER, Path(name).name]
        pipe = subprocess.PIPE
        command = ["unshare", "--mount", *program]
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as container:
            assert container.stdout is not None
            assert container.stdout.readline() == b"held\n"
            assert device_owner(name) is None
            container.communicate()
    finally:
        os.close(master)


def test_what_is_no_device_has_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert device_owner(str(tmp_path / "file")) is None
    assert device_owner(str(tmp_path / "none")) is None
