"""Under a small limit the gateway serves, or ends with one line that names it; nothing between."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gateway.host import limits, needs
from gateway.host.limits import NOFILE, UNLIMITED, LimitError
from hil.rig.gateway import GatewayProcess
from tests.host.limited import Outcome, become_nobody, limit, served_under

UNAVAILABLE = 69
MIB = 1 << 20
CLOSED = any(not path.stat().st_mode & 0o001 for path in Path(sys.executable).parents)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
needs_way_in = pytest.mark.skipif(CLOSED, reason="another user may not enter this clone")


@pytest.fixture
def for_nobody() -> Iterator[Path]:
    """A folder that another user may enter, as pytest's may not."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def judge(outcome: Outcome, *words: str) -> None:
    """It serves, or ends with one line that has these words."""
    if outcome.is_served:
        assert (outcome.code, outcome.complaints) == (None, [])
        return
    assert outcome.code == UNAVAILABLE, outcome.lines
    assert len(outcome.complaints) == 1, outcome.lines
    assert all(word in outcome.complaints[0] for word in words), outcome.complaints


@pytest.mark.parametrize("count", [6, 12, 19, 26, 34])
def test_few_descriptors(tmp_path: Path, count: int) -> None:
    outcome = served_under(tmp_path, limit(resource.RLIMIT_NOFILE, count))
    judge(outcome, f"RLIMIT_NOFILE allows {count} open files", "ulimit -n", "LimitNOFILE=")
    assert outcome.is_served == (count >= 27)


def test_a_soft_limit_of_descriptors_is_raised_as_far_as_is_needed(tmp_path: Path) -> None:
    outcome = served_under(tmp_path, limit(resource.RLIMIT_NOFILE, 10, 4096))
    judge(outcome)
    assert outcome.is_served


@needs_root
@needs_way_in
@pytest.mark.parametrize("count", [1, 2, 4, 6, 8])
def test_few_threads(for_nobody: Path, count: int) -> None:
    outcome = served_under(for_nobody, limit(resource.RLIMIT_NPROC, count), become_nobody)
    judge(outcome, "no more threads", f"RLIMIT_NPROC is {count}", "ulimit -u", "LimitNPROC=")
    assert outcome.is_served == (count > limits.THREADS_MIN)
    assert outcome.reached == outcome.is_served, "a broker with a numeric address needs no thread"


@pytest.mark.parametrize("mib", [60, 105, 200])
@pytest.mark.parametrize(
    ("number", "name", "flag"),
    [(resource.RLIMIT_AS, "RLIMIT_AS", "-v"), (resource.RLIMIT_DATA, "RLIMIT_DATA", "-d")],
)
def test_little_memory(tmp_path: Path, number: int, name: str, flag: str, mib: int) -> None:
    outcome = served_under(tmp_path, limit(number, mib * MIB))
    judge(outcome, f"{name} is {mib} MiB", f"ulimit {flag}", "Limit")
    assert outcome.is_served == (mib > 60)


def test_no_file_may_grow(tmp_path: Path) -> None:
    outcome = served_under(tmp_path, limit(resource.RLIMIT_FSIZE, 2 * MIB))
    judge(outcome, "RLIMIT_FSIZE allows 2 MiB", "LimitFSIZE=infinity")
    assert not outcome.is_served


def test_limits_that_do_not_matter(tmp_path: Path) -> None:
    """All at once, as it is served under each of them then."""
    steps = [
        limit(resource.RLIMIT_STACK, 192 * 1024),  # its threads get more than that
        limit(resource.RLIMIT_MEMLOCK, 0),
        limit(resource.RLIMIT_SIGPENDING, 0),
        limit(resource.RLIMIT_CORE, 0),
        limit(resource.RLIMIT_MSGQUEUE, 0),
    ]
    assert served_under(tmp_path, *steps).is_served


def test_processor_time_that_ends_is_logged_at_the_start(tmp_path: Path) -> None:
    outcome = served_under(tmp_path, limit(resource.RLIMIT_CPU, 60))
    assert outcome.is_served
    (line,) = [line for line in outcome.lines if "RLIMIT_CPU" in line]
    assert " WARN " in line
    assert "60 s" in line


def test_a_limit_behind_an_error_is_named() -> None:
    def name(error: BaseException) -> str:
        return str(limits.named(error))

    assert "RLIMIT_NOFILE" in name(OSError(errno.EMFILE, "Too many open files"))
    assert "fs.file-max" in name(OSError(errno.ENFILE, "Too many open files in system"))
    assert "no more memory" in name(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert "no more memory" in name(MemoryError())
    assert "no more memory" in name(ImportError("x.so: failed to map segment from shared object"))
    assert "no more threads" in name(RuntimeError("can't start new thread"))
    known = LimitError(errno.EAGAIN, "known already")
    assert limits.named(known) is known
    for other in (OSError(errno.ENOENT, "?"), RuntimeError("?"), ImportError("?"), KeyError("?")):
        assert limits.named(other) is None


def group(folder: Path, most: str, current: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pids.max").write_text(most)
    (folder / "pids.current").write_text(str(current))


@pytest.mark.parametrize("line", ["0::/a/b", "7:cpu,pids:/a/b"])
def test_the_tightest_control_group_counts(tmp_path: Path, line: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(f"3:cpuset:/\n{line}\n")
    top = tmp_path / "groups"
    top = top if line.startswith("0") else top / "pids"
    group(top / "a/b", "max\n", 3)
    assert limits.pids_max(tmp_path, tmp_path / "groups") is None
    group(top / "a/b", "100\n", 3)
    group(top / "a", "20\n", 19)
    assert limits.pids_max(tmp_path, tmp_path / "groups") == (20, 19)


def test_a_crowd_at_the_page_leaves_descriptors_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gateway.config.settings import Settings

    for soft, backlog in ((UNLIMITED, 64), (20_000, 64), (100, 21), (30, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda number, soft=soft: (soft, soft))
        assert NOFILE.soft() == soft
        assert needs.page_backlog(Settings()) == backlog


def is_served(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 20) as check:
        check.settimeout(20)
        check.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        return check.recv(100).startswith(b"HTTP/1.0 200")


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is of util-linux")
def test_a_crowd_at_the_page_takes_no_descriptor_from_the_rest(tmp_path: Path) -> None:
    prefix = ("prlimit", "--nofile=32:32")
    page_on = '[admin]\nlisten = "127.0.0.1:0"\n'
    with GatewayProcess(tmp_path, "mqtt://127.0.0.1:1", page_on, prefix=prefix) as gateway:
        port = int(gateway.wait_for_log(r"status page on http://127\.0\.0\.1:(\d+)").group(1))
        crowd = [socket.socket() for _ in range(30)]
        for each in crowd:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        # What of the crowd the kernel lets in behind it takes its place before it is answered on a
        # busy machine: asked again, as a browser does.
        assert any(is_served(port) for _ in range(10))
        used = len(list(Path(f"/proc/{gateway.pid}/fd").iterdir()))
        assert used < 32 - 5, "for the next segment, the broker and its name"
        assert "open files" not in gateway.log
        for each in crowd:
            each.close()
