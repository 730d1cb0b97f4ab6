"""Which mount holds a folder, read from what the kernel says of them."""

from pathlib import Path

import pytest

from gateway.config.mounts import Mount, existing, free_bytes, mount_of

MOUNTINFO = """\
22 1 179:2 / / rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw
25 22 0:23 / {folder} rw,nosuid - tmpfs tmpfs rw,size=512k
26 25 0:24 / {folder}/a\\040b rw - nfs4 10.0.0.5:/x rw,sync
27 25 8:1 / {folder}/c rw - ext4 /dev/sda1 rw
28 27 0:25 / {folder}/c rw,relatime - overlay overlay rw
not a line of it
"""


@pytest.fixture
def mountinfo(folder: Path) -> Path:
    file = folder / "mountinfo"
    file.write_text(MOUNTINFO.replace("{folder}", str(folder)))
    return file


def test_the_innermost_mount_holds_a_folder(folder: Path, mountinfo: Path) -> None:
    (folder / "a b").mkdir()
    inner = mount_of(folder / "a b" / "deep", mountinfo)
    assert inner == Mount(f"{folder}/a b", "nfs4", "10.0.0.5:/x", "0:24", ("rw", "sync"))
    assert (inner.is_over_the_network, inner.is_in_memory) == (True, False)
    outer = mount_of(folder / "abc", mountinfo)
    assert outer is not None
    assert (outer.file_system, outer.is_in_memory) == ("tmpfs", True)
    root = mount_of(Path("/etc"), mountinfo)
    assert root == Mount("/", "ext4", "/dev/mmcblk0p2", "179:2", ("rw", "noatime"))


def test_of_two_mounts_at_one_place_the_later_one_counts(folder: Path, mountinfo: Path) -> None:
    (folder / "c").mkdir()
    found = mount_of(folder / "c", mountinfo)
    assert found is not None
    assert found.file_system == "overlay"


def test_a_link_is_followed_to_where_it_leads(folder: Path, mountinfo: Path) -> None:
    (folder / "a b").mkdir()
    (folder / "link").symlink_to("a b")
    found = mount_of(folder / "link", mountinfo)
    assert found is not None
    assert found.file_system == "nfs4"


def test_where_the_kernel_does_not_say_nothing_is_known(folder: Path) -> None:
    assert mount_of(folder, folder / "none") is None
    (folder / "empty").touch()
    assert mount_of(folder, folder / "empty") is None


def test_this_machine_says_where_its_folders_lie(folder: Path) -> None:
    assert mount_of(folder) is not None
    assert (free_bytes(folder / "not" / "yet") or 0) > 0


def test_of_a_folder_that_is_not_there_the_nearest_above_it_counts(folder: Path) -> None:
    (folder / "file").touch()
    assert existing(folder / "not" / "yet") == folder
    assert existing(folder / "file") == folder
