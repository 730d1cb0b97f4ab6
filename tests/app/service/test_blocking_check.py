"""The check for calls that may block: what it finds, what it leaves alone, and in which thread.

Processes of their own: what it installs stays in a process.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.app.service import blocking_check
from gateway.app.service.blocking_check import ALLOWED, Allowed, BlockingCheck, Finding, Mode
from hil.rig.gateway import GatewayProcess

REPOSITORY = Path(__file__).parents[3]
SETUP = """
import asyncio, concurrent.futures.thread, encodings.idna, os, pathlib, pwd, shutil, socket
import sqlite3, ssl, subprocess, sys, threading, time
from gateway.app.service.blocking_check import BlockingCallError, BlockingCheck, Mode
def fresh(name):
    global here, descriptor, pipe, stream, datagrams
    here = pathlib.Path(sys.argv[1]) / name
    here.mkdir(exist_ok=True)
    (here / "file").write_text("x")
    descriptor = os.open(here / "file", os.O_RDWR)
    pipe = os.pipe()
    stream = socket.create_server(("127.0.0.1", 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
async def main():
"""
EACH = """
    fresh("{name}")
    check = BlockingCheck(Mode.{mode})  # one reports a call once, as no place of it is ours
    check.arm()
    {body}
    check.disarm()
    print("--", *check.findings, sep="\\n")
"""


def found(folder: Path, *calls: str, mode: str = "LOG") -> list[str]:
    """The calls in the loop's thread that are findings, each as `call(argument)`."""
    (findings,) = found_by_each(folder, ["\n    ".join(calls)], mode=mode)
    return findings


def found_by_each(folder: Path, bodies: Sequence[str], *, mode: str = "LOG") -> list[list[str]]:
    """What is found in each of them, one after another in one process and a folder of its own."""
    program = SETUP
    for number, body in enumerate(bodies):
        program += EACH.format(name=f"at_{number}", mode=mode, body=body)
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nasyncio.run(main())", str(folder)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here = re.compile(rf"{re.escape(str(folder))}/at_\d+")
    return [
        [here.sub("HERE", line.partition(" at ")[0]) for line in part.split("\n") if line]
        for part in done.stdout.split("--\n")[1:]
    ]


FINDINGS = [
    ('(here / "file").read_text()', "open(HERE/file)"),
    ('os.open(here / "file", os.O_RDONLY)', "open(HERE/file)"),
    ('(here / "file").exists()', "os.stat(HERE/file)"),
    ('os.path.lexists(here / "none")', "os.lstat(HERE/none)"),
    ("os.statvfs(here)", "os.statvfs(HERE)"),
    ("os.access(here, os.R_OK)", "os.access(HERE)"),
    ("os.listdir(here)", "os.listdir(HERE)"),
    ("list(os.scandir(here))", "os.scandir(HERE)"),
    ('(here / "new").mkdir()', "os.mkdir(HERE/new)"),
    ('(here / "file").replace(here / "other")', "os.rename(HERE/file)"),
    ('(here / "file").unlink()', "os.remove(HERE/file)"),
    ('(here / "file").chmod(0o600)', "os.chmod(HERE/file)"),
    ("os.fstat(descriptor)", "os.fstat(a descriptor)"),
    ("os.fsync(descriptor)", "os.fsync(a descriptor)"),
    ('os.write(descriptor, b"x")', "os.write(a descriptor)"),
    ('os.write(pipe[1], b"x")', "os.write(a descriptor)"),
    ('shutil.copyfile(here / "file", here / "other")', "shutil.copyfile(HERE/file)"),
    ("sqlite3.connect(here / 'db').close()", "sqlite3.connect(HERE/db)"),
    ('subprocess.Popen(["true"]).wait()', "subprocess.Popen(true)"),
    ('socket.getaddrinfo("localhost", 1)', "socket.getaddrinfo('localhost')"),
    ('socket.gethostbyname("localhost")', "socket.gethostbyname('localhost')"),
    ('datagrams.connect(("localhost", 9))', "socket.connect(('localhost', 9))"),
    (
        "socket.socket().connect(stream.getsockname())",
        "socket.connect(('127.0.0.1', ",
    ),
    ("ssl.create_default_context()", "SSLContext.load_default_certs("),
    ("time.sleep(0)", "time.sleep(a descriptor)"),
    ("pwd.getpwuid(0)", "pwd.getpwuid(a descriptor)"),
    ("t = threading.Thread(target=print); t.start(); t.join()", "Thread.join("),
    ("import colorsys", "import(colorsys)"),
]


def test_each_call_in_the_thread_of_the_loop_is_found(tmp_path: Path) -> None:
    each = found_by_each(tmp_path, [call for call, _ in FINDINGS])
    for (call, finding), findings in zip(FINDINGS, each, strict=True):
        assert findings[:1], f"{call}: nothing is found"
        assert findings[0].startswith(finding), call


def test_what_cannot_block_or_is_done_in_another_thread_is_none(tmp_path: Path) -> None:
    calls = (
        'pathlib.Path("/proc/self/stat").read_text()',
        'socket.getaddrinfo("127.0.0.1", 1)',
        'datagrams.connect(("127.0.0.1", 9))',
        "os.set_blocking(pipe[1], False); os.write(pipe[1], b'x')",
        "import itertools",
        "await asyncio.to_thread((here / 'file').read_text)",
        "await asyncio.sleep(0)",
    )
    for call, findings in zip(calls, found_by_each(tmp_path, calls), strict=True):
        assert findings == [], call


def test_each_place_is_reported_once_and_an_unarmed_check_reports_nothing(tmp_path: Path) -> None:
    again = 'for _ in range(3): (here / "file").read_text()'
    assert len(found(tmp_path, again)) == 1
    assert found(tmp_path, "check.disarm()", again) == []


def test_it_can_make_the_call_fail(tmp_path: Path) -> None:
    calls = (
        'found = ""',
        'try: (here / "new").mkdir()',
        "except BlockingCallError as error: found = str(error)",
        'assert found.startswith("os.mkdir"), found',
        "check.disarm()",
        'assert not (here / "new").exists()',
    )
    assert found(tmp_path, *calls, mode="RAISE") == ["os.mkdir(HERE/new)"]


def test_only_the_two_words_switch_it_on() -> None:
    variable, to = blocking_check.VARIABLE, blocking_check.FILE_VARIABLE
    for nothing in ({}, {variable: ""}, {variable: "yes"}, {to: "/x"}):
        assert BlockingCheck.of(nothing) is None
    made = BlockingCheck.of({variable: "raise", to: "/x"})
    assert made is not None
    assert (made.mode, made.to) == (Mode.RAISE, Path("/x"))


def test_what_is_allowed_has_a_reason_and_covers_nothing_else() -> None:
    assert all(each.reason for each in ALLOWED)
    allowed = Allowed("kept", call="open", argument="/a/", place="one.py")
    places = ("two.py:1 f", "one.py:7 g")
    assert allowed.covers(Finding("open", "/a/b", places))
    assert not allowed.covers(Finding("os.stat", "/a/b", places))
    assert not allowed.covers(Finding("open", "/b/a/", places))
    assert not allowed.covers(Finding("open", "/a/b", places[:1]))
    descriptor = Finding("os.stat", "/proc/7/fd/3", ())  # leads to any file
    assert not any(each.covers(descriptor) for each in ALLOWED)


# The daemon, with a mistake that it does not have

MISTAKE = """
import sys
from gateway.admin.event_log import EventLog
def flush(self):
    open({path!r}).close()
EventLog.flush = flush
from gateway.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def gateway_with_mistake(folder: Path) -> GatewayProcess:
    program = MISTAKE.format(path=str(folder / "gateway.toml"))
    command = (sys.executable, "-c", program)
    return GatewayProcess(folder, "mqtt://127.0.0.1:1", command=command)


def test_a_gateway_that_opens_a_file_in_its_loop_says_so_with_the_place(tmp_path: Path) -> None:
    to = tmp_path / "calls"
    environment = {blocking_check.VARIABLE: "log", blocking_check.FILE_VARIABLE: str(to)}
    gateway = gateway_with_mistake(tmp_path)
    gateway.start(environment=environment)
    try:
        line = gateway.wait_for_log(
            r"ERROR tidegate.blocking a call that may block, in the thread of the event loop: (.*)"
        )
        assert line[1].startswith(f"open({tmp_path}/gateway.toml) at app/daemon.py:")
        assert " keep_house < " in line[1]
        assert gateway.stop() == 0
    finally:
        gateway.kill()
    assert to.read_text() == f"{line[1]}\n"
    assert gateway.log.count("a call that may block") == 1


def test_told_to_it_ends_with_an_error(tmp_path: Path) -> None:
    environment = {blocking_check.VARIABLE: "raise", blocking_check.FILE_VARIABLE: ""}
    gateway = gateway_with_mistake(tmp_path)
    gateway.start(environment=environment)
    try:
        assert gateway.wait_for_exit() == 1
    finally:
        gateway.kill()
    assert "error='BlockingCallError: open(" in gateway.log
    assert "Traceback" not in gateway.log
