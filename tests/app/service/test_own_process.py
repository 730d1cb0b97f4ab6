"""A busy gateway is a batch process, in all its threads, unless somebody decided otherwise."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from gateway.app.service.own_process import Scheduling
from gateway.frames import SearchGw, encode
from hil.rig.gateway import GatewayProcess
from tests.support.waiting import until

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


@contextmanager
def running(
    folder: Path, *, prefix: tuple[str, ...] = (), scheduling: str | None = None
) -> Iterator[GatewayProcess]:
    """A gateway that listens."""
    gateway = GatewayProcess(folder, "mqtt://127.0.0.1:1", JOURNALED, prefix=prefix)
    wanted = {} if scheduling is None else {"TIDEGATE_GATEWAY__SCHEDULING": scheduling}
    gateway.start(environment=os.environ | wanted)
    try:
        assert gateway.port
        yield gateway
    finally:
        gateway.stop()


def policies(gateway: GatewayProcess) -> set[int]:
    """Of all its threads."""
    threads = [int(path.name) for path in Path(f"/proc/{gateway.pid}/task").iterdir()]
    assert len(threads) > 1
    return {os.sched_getscheduler(thread) for thread in threads}


def flood(gateway: GatewayProcess) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.connect(("127.0.0.1", gateway.port))
        for _ in range(1000):
            sensor.send(encode(SearchGw(radius=0)))


def test_it_displaces_nobody_while_it_is_busy(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        until(lambda: policies(gateway) == {os.SCHED_OTHER})

        def is_batch_under_load() -> bool:
            flood(gateway)
            return policies(gateway) == {os.SCHED_BATCH}

        until(is_batch_under_load)
        until(lambda: policies(gateway) == {os.SCHED_OTHER})


def test_the_operator_may_have_it_displace_nobody_at_all(tmp_path: Path) -> None:
    with running(tmp_path, scheduling="batch") as gateway:
        assert policies(gateway) == {os.SCHED_BATCH}


def test_the_operator_may_leave_it_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path, scheduling="inherited") as gateway:
        for _ in range(20):
            flood(gateway)
        assert policies(gateway) == {os.sched_getscheduler(0)}


@pytest.mark.parametrize("scheduling", ["auto", "batch"])
def test_another_policy_that_it_is_started_with_stays(
    monkeypatch: pytest.MonkeyPatch, scheduling: str
) -> None:
    """Not by a process under SCHED_IDLE: beside others it has hardly any time to start."""
    changed: list[int] = []
    processor_s = count(0.0, 1.0)
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", lambda _thread, policy, _: changed.append(policy))
    monkeypatch.setattr(time, "process_time", lambda: next(processor_s))
    scheduling_of_ours = Scheduling(scheduling)
    for _ in range(3):
        scheduling_of_ours.beat()
    for thread in threading.enumerate():
        if thread.name == "policy":
            thread.join()
    assert changed == []

    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_OTHER)
    others = Scheduling(scheduling)
    for _ in range(3):
        others.beat()
    for thread in threading.enumerate():
        if thread.name == "policy":
            thread.join()
    assert set(changed) == {os.SCHED_BATCH}


def test_where_that_is_forbidden_it_runs_all_the_same(tmp_path: Path) -> None:
    number = SCHED_SETSCHEDULER.get(os.uname().machine)
    if number is None:
        pytest.skip(f"not run: the number of a system call on {os.uname().machine} is not known")
    prefix = (sys.executable, "-c", REFUSING, str(number))
    with running(tmp_path, prefix=prefix, scheduling="batch") as gateway:
        assert policies(gateway) == {os.sched_getscheduler(0)}
