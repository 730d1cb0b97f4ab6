"""What the facts about a disk mean: cards that lie, disks that are slow, full or no disks."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli.doctor.block_device import BlockDevice, block_device
from gateway.cli.doctor.disk import DiskFacts
from gateway.cli.doctor.findings import Level, findings
from gateway.cli.doctor.syncs import SyncTimes
from gateway.config.mounts import Mount
from gateway.config.settings import MIB

CARD = BlockDevice("mmcblk0", "SD card", "SD64G")
MOUNT = Mount("/", "ext4", "/dev/mmcblk0p2", "179:2", ("rw", "noatime"))
WELL = DiskFacts(
    folder=Path("/var/lib/tidegate"),
    examined=Path("/var/lib/tidegate"),
    is_writable=True,
    mount=MOUNT,
    device=CARD,
    free_bytes=600 * MIB,
    size_max_bytes=512 * MIB,
    syncs=SyncTimes(100, p50_s=0.003, p99_s=0.05, worst_s=2.0),
)


def levels(facts: DiskFacts) -> list[tuple[Level, str]]:
    found = findings(facts)
    assert all(finding.advice for finding in found)
    return [(finding.level, finding.what) for finding in found]


def mounted(**changes: object) -> DiskFacts:
    return replace(WELL, mount=replace(MOUNT, **changes))  # type: ignore[arg-type]


def test_a_good_card_is_left_alone() -> None:
    assert levels(WELL) == []
    assert levels(replace(WELL, mount=None, device=None, free_bytes=None, syncs=None)) == []


def test_a_card_that_is_too_fast_seems_to_lie() -> None:
    fast = SyncTimes(100, p50_s=0.00029, p99_s=0.001, worst_s=0.001)
    ((level, what),) = levels(replace(WELL, syncs=fast))
    assert level is Level.WARNING
    assert what == "the card seems to acknowledge before it has written: p50 0.29 ms"
    assert "no software can fix this" in findings(replace(WELL, syncs=fast))[0].advice
    assert levels(replace(WELL, syncs=replace(fast, p50_s=0.0003))) == []


@pytest.mark.parametrize("device", [None, BlockDevice("nvme0n1", "solid state", None)])
def test_what_is_no_card_may_be_fast(device: BlockDevice | None) -> None:
    fast = SyncTimes(100, p50_s=0.00002, p99_s=0.001, worst_s=0.001)
    assert levels(replace(WELL, device=device, syncs=fast)) == []


def test_a_disk_on_which_one_in_a_hundred_is_slow_is_warned_about() -> None:
    slow = SyncTimes(100, p50_s=0.003, p99_s=0.501, worst_s=0.6)
    assert levels(replace(WELL, syncs=slow)) == [
        (Level.WARNING, "one write in a hundred takes more than 500 ms: p99 501 ms")
    ]
    assert levels(replace(WELL, syncs=replace(slow, p99_s=0.5))) == []


def test_a_journal_that_would_not_fit_is_warned_about() -> None:
    tight = replace(WELL, free_bytes=400 * MIB, journal_bytes=100 * MIB)
    assert levels(tight) == [
        (Level.WARNING, "the journal may take 512 MiB, but there is room for 500 MiB")
    ]
    assert levels(replace(tight, journal_bytes=112 * MIB)) == []
    assert levels(replace(tight, is_journal_used=False)) == []


@pytest.mark.parametrize(
    ("facts", "level", "what"),
    [
        (mounted(file_system="tmpfs", options=("rw",)), Level.FAILURE, "/ is in memory (tmpfs)"),
        (mounted(file_system="nfs4"), Level.WARNING, "/ is over the network (nfs4)"),
        (mounted(file_system="overlay"), Level.WARNING, "/ is an overlay"),
        (mounted(file_system="vfat"), Level.WARNING, "vfat has no journal"),
        (mounted(options=("rw", "noatime", "sync")), Level.WARNING, "/ is mounted with sync"),
        (mounted(options=("rw", "noatime", "barrier=0")), Level.WARNING, "/ is mounted without b"),
        (mounted(options=("rw",)), Level.NOTE, "/ is mounted without noatime"),
        (replace(mounted(options=("ro", "noatime")), is_writable=False), Level.FAILURE, "/ is mou"),
        (
            replace(mounted(file_system="squashfs", options=("ro", "noatime")), is_writable=False),
            Level.FAILURE,
            "/ is an image (squashfs) that can never be written",
        ),
        (
            replace(WELL, has_no_inodes=True),
            Level.FAILURE,
            "the file system of /var/lib/tidegate has no inodes left",
        ),
        (replace(WELL, is_writable=False, syncs=None), Level.FAILURE, "/var/lib/tidegate may not"),
        (replace(WELL, error="No space left on device", syncs=None), Level.FAILURE, "/var/lib/ti"),
    ],
)
def test_each_trouble_is_found_and_nothing_else(facts: DiskFacts, level: Level, what: str) -> None:
    ((found_level, found),) = levels(facts)
    assert found_level is level
    assert found.startswith(what)


def test_the_worst_comes_first() -> None:
    facts = replace(
        mounted(options=("rw",)), error="I/O error", syncs=None, free_bytes=0, journal_bytes=0
    )
    assert [level for level, _ in levels(facts)] == [Level.FAILURE, Level.WARNING, Level.NOTE]


# Devices


def plant(sys: Path, number: str, device: str, files: dict[str, str]) -> Path:
    folder = sys / "devices" / device
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
    for kind, name in (("dev/block", number), ("class/block", folder.name)):
        (sys / kind).mkdir(parents=True, exist_ok=True)
        (sys / kind / name).symlink_to(folder)
    return folder


MMC = {"queue/rotational": "0", "device/name": "SD64G"}


@pytest.mark.parametrize(
    ("kind", "said"), [({"device/type": "SD"}, "SD card"), ({"device/type": "MMC"}, "eMMC")]
)
def test_a_card_is_told_from_what_is_soldered_on(
    tmp_path: Path, kind: dict[str, str], said: str
) -> None:
    plant(tmp_path, "179:0", "mmc0/mmcblk0", MMC | kind)
    plant(tmp_path, "179:2", "mmc0/mmcblk0/mmcblk0p2", {"partition": "2"})
    found = block_device(MOUNT, tmp_path)
    assert found == BlockDevice("mmcblk0", said, "SD64G")
    assert found.is_sd_card == (said == "SD card")


@pytest.mark.parametrize(("rotational", "said"), [("0", "solid state"), ("1", "rotating disk")])
def test_a_disk_rotates_or_not(tmp_path: Path, rotational: str, said: str) -> None:
    plant(tmp_path, "8:0", "sda", {"queue/rotational": rotational, "device/model": "DISK 1"})
    assert block_device(replace(MOUNT, device="8:0"), tmp_path) == BlockDevice(
        "sda", said, "DISK 1"
    )


def test_an_encrypted_volume_is_what_it_lies_on(tmp_path: Path) -> None:
    plant(tmp_path, "179:0", "mmc0/mmcblk0", MMC | {"device/type": "SD"})
    part = plant(tmp_path, "179:2", "mmc0/mmcblk0/mmcblk0p2", {"partition": "2"})
    volume = plant(tmp_path, "254:0", "virtual/dm-0", {"queue/rotational": "0"})
    (volume / "slaves").mkdir()
    (volume / "slaves" / "mmcblk0p2").symlink_to(part)
    assert block_device(replace(MOUNT, device="254:0"), tmp_path) == CARD


def test_volumes_in_a_circle_come_to_an_end(tmp_path: Path) -> None:
    volume = plant(tmp_path, "254:0", "virtual/dm-0", {})
    (volume / "slaves").mkdir()
    (volume / "slaves" / "dm-0").symlink_to(volume)
    found = block_device(replace(MOUNT, device="254:0"), tmp_path)
    assert found == BlockDevice("dm-0", None, None)


@pytest.mark.parametrize("mount", [MOUNT, replace(MOUNT, device="0:23", source="tmpfs")])
def test_where_the_kernel_says_nothing_nothing_is_known(tmp_path: Path, mount: Mount) -> None:
    assert block_device(mount, tmp_path) is None
