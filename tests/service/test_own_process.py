"""The gateway is a batch process, in all its threads, unless somebody decided otherwise."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess

JOURNALED = '[journal]\nacknowledge = "journal"\n'  # its thread is there from the start
# A seccomp filter as a service manager sets it: the system call of this number is refused (EPERM),
# all others are allowed. What `prctl` and a BPF program want of numbers is in linux/seccomp.h.
REFUSING = """
import ctypes, os, struct, sys
number, *command = sys.argv[1:]
program = b"".join(struct.pack("=HBBI", *each) for each in (
    (0x20, 0, 0, 0), (0x15, 0, 1, int(number)), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000),
))
memory = ctypes.create_string_buffer(program, len(program))
described = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(memory)))
prctl = ctypes.CDLL(None, use_errno=True).prctl
zero = ctypes.c_ulong(0)
assert prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
assert prctl(22, ctypes.c_ulong(2), described, zero, zero) == 0
try:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
except PermissionError:
    os.execv(command[0], command)
sys.exit("the system call was not refused")
"""
SCHED_SETSCHEDULER = {"x86_64": 144, "aarch64": 119, "armv7l": 156}


def policies(
    folder: Path, *, prefix: tuple[str, ...] = (), scheduling: str | None = None
) -> set[int]:
    """Of all threads of a gateway that listens."""
    gateway = GatewayProcess(folder, "mqtt://127.0.0.1:1", JOURNALED, prefix=prefix)
    wanted = {} if scheduling is None else {"TIDEGATE_GATEWAY__SCHEDULING": scheduling}
    gateway.start(environment=os.environ | wanted)
    try:
        assert gateway.port
        threads = [int(path.name) for path in Path(f"/proc/{gateway.pid}/task").iterdir()]
        assert len(threads) > 1
        return {os.sched_getscheduler(thread) for thread in threads}
    finally:
        gateway.stop()


def test_it_displaces_nobody(tmp_path: Path) -> None:
    assert policies(tmp_path) == {os.SCHED_BATCH}


def test_the_operator_may_leave_it_as_it_was(tmp_path: Path) -> None:
    assert policies(tmp_path, scheduling="inherited") == {os.sched_getscheduler(0)}


def test_who_starts_it_under_another_policy_has_decided(tmp_path: Path) -> None:
    chrt = shutil.which("chrt")
    assert chrt is not None, "chrt is a part of util-linux, which every Linux has"
    assert policies(tmp_path, prefix=(chrt, "--idle", "0")) == {os.SCHED_IDLE}


def test_where_that_is_forbidden_it_runs_all_the_same(tmp_path: Path) -> None:
    number = SCHED_SETSCHEDULER.get(os.uname().machine)
    if number is None:
        pytest.skip(f"not run: the number of a system call on {os.uname().machine} is not known")
    prefix = (sys.executable, "-c", REFUSING, str(number))
    assert policies(tmp_path, prefix=prefix) == {os.sched_getscheduler(0)}
