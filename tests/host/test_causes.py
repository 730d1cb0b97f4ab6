"""The cause behind an error of the file system, by name."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.config.mounts import Mount
from gateway.host.causes import brief, cause, in_the_way, is_too_long, read_only, refusal
from gateway.storage.journal.repair import journal_error
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import open_state
from tests.cli.tidegate import environment_with

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount"
)


def mounted_read_only(file_system: str, *, was_made: bool = False) -> Mount:
    return Mount("/mnt/card", file_system, "/dev/sda1", "8:1", ("rw", "ro"), was_made)


def test_a_read_only_file_system_is_reported_by_how_it_became_so() -> None:
    assert "squashfs) that can never be written" in read_only(mounted_read_only("squashfs"))
    made = read_only(mounted_read_only("ext4", was_made=True))
    assert "the kernel has made /mnt/card read-only after an error of the disk" in made
    assert "remount" not in made
    assert "sudo mount -o remount,rw /mnt/card" in read_only(mounted_read_only("ext4"))
    assert "read-only" in read_only(None)


def test_what_is_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "away")
    assert in_the_way(tmp_path / "a" / "b") is None
    assert str(in_the_way(tmp_path / "file" / "b")).startswith(f"{tmp_path}/file is not a folder")
    found = in_the_way(tmp_path / "link" / "b")
    assert f"{tmp_path}/link is a symbolic link to {tmp_path}/away, which is not there" in str(
        found
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "disk quota of this user is used up"),
        (errno.EFBIG, "takes no file of that size"),
        (errno.ENAMETOOLONG, "255 bytes for each name"),
        (errno.ELOOP, "circle"),
        (errno.EIO, "the disk fails"),
        (errno.ENOSPC, "`df -h` and `df -i`"),
        (errno.EXDEV, "as it is"),
    ],
)
def test_the_number_of_an_error_has_its_sentence(number: int, words: str) -> None:
    assert words in brief(OSError(number, "as it is"))


def test_an_error_is_explained_with_its_place(tmp_path: Path) -> None:
    def said(number: int) -> str:
        return cause(OSError(number, "as it is"), tmp_path / "state")

    assert f"the disk is full: free some space; `df -h {tmp_path}`" in said(errno.ENOSPC)
    assert "has gone: mount it again" in said(errno.ENOTCONN)
    assert said(errno.ENOENT) == "as it is"
    assert "quota" in said(errno.EDQUOT)


def test_a_limit_of_file_sizes_is_named_and_not_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8192, 8192))
    said = brief(OSError(errno.EFBIG, "too large"))
    assert "no file may become larger than 8192 bytes (RLIMIT_FSIZE)" in said
    error = journal_error(Path("/var/lib/tidegate/journal"), OSError(errno.EFBIG, "too large"))
    assert "RLIMIT_FSIZE" in str(error)


def test_a_path_that_is_too_long_is_known_before_it_is_used(tmp_path: Path) -> None:
    assert not is_too_long(tmp_path)
    assert is_too_long(tmp_path / ("x" * 256))
    deep = Path("/", *["y" * 250] * 16)
    assert not is_too_long(deep)
    assert is_too_long(deep, 90)
    with pytest.raises(StateError, match="the path is too long"):
        open_state(tmp_path / ("x" * 256))


def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "away")
    with pytest.raises(StateError, match=r"is a symbolic link to .*away, which is not there"):
        open_state(tmp_path / "state")


def test_the_system_is_asked_what_a_library_hides(tmp_path: Path) -> None:
    assert refusal(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    found = refusal(tmp_path / "away")
    assert found is not None
    assert found.errno == errno.ENOENT


OPEN_IT = """
import sys
from pathlib import Path
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import open_state
try:
    open_state(Path(sys.argv[1]))
except StateError as error:
    print(error.strerror)
"""


@needs_root
@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("mount -t tmpfs -o nr_inodes=2 none {0}", "has no inodes left"),
        ("mount -t tmpfs -o size=8k none {0}", "the disk is full"),
        ("mount -t tmpfs -o ro none {0}", "is mounted read-only: `sudo mount -o remount,rw"),
        ("mount -t tmpfs none {0}; ulimit -f 4", "RLIMIT_FSIZE"),
    ],
)
def test_what_a_file_system_refuses_is_named(tmp_path: Path, mount: str, words: str) -> None:
    script = f'{mount.format(tmp_path)}; exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "-", sys.executable, "-c", OPEN_IT]
    done = subprocess.run(
        [*command, str(tmp_path)],
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert words in done.stdout, done
