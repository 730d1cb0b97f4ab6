"""What the facts about the disk mean, and what to do: the first thing to fix comes first."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gateway.cli.doctor.disk import DiskFacts, milliseconds
from gateway.config.mounts import Mount
from gateway.config.settings import MIB
from gateway.host.causes import (
    IMAGES,
    as_user,
    make_command,
    owner_of,
    read_only,
    repair_command,
    user_name,
)

# A card that has programmed its flash has needed longer. A judgement, as there is no way to know.
BELIEVABLE_S_MIN = 0.0003
# Sensors hear of success after it, and one in a hundred of this length is what wears patience.
SLOW_S = 0.5

WITHOUT_A_JOURNAL = frozenset({"vfat", "exfat", "msdos", "fuseblk", "ntfs3", "ext2"})
WITHOUT_BARRIERS = frozenset({"nobarrier", "barrier=0"})
ATIME = frozenset({"noatime", "relatime", "lazytime"})


class Level(Enum):
    FAILURE = "failure"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """`command` fixes it, or is the first step to that; each failure has one."""

    level: Level
    what: str
    advice: str
    command: str = ""


def findings(facts: DiskFacts, edit: str = "") -> list[Finding]:
    """The worst first; none if all is well. `edit` opens gateway.state_dir in an editor."""
    found = [
        *_about_writing(facts),
        *([] if facts.mount is None else _about_mount(facts.mount, edit)),
        *_about_times(facts),
        *_about_room(facts),
    ]
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _about_writing(facts: DiskFacts) -> Iterator[Finding]:
    if facts.in_the_way is not None:
        yield Finding(
            Level.FAILURE,
            f"{facts.in_the_way} is there, but is no folder that this user may enter",
            "move it away if it is a file, or run this as the gateway's user",
            f"sudo mv {_quoted(facts.in_the_way)} {_quoted(facts.in_the_way)}.old",
        )
    elif not facts.is_writable and (facts.mount is None or "ro" not in facts.mount.options):
        yield _not_writable(facts)
    elif facts.has_no_inodes:
        yield Finding(
            Level.FAILURE,
            f"the file system of {facts.examined} has no inodes left, though it may have room",
            "remove files that nobody needs; many small ones of another program most often",
            f"df -i {_quoted(facts.examined)}; sudo du --inodes -x / | sort -n | tail",
        )
    elif facts.error is not None:
        yield Finding(
            Level.FAILURE,
            f"{facts.examined} could not be written and synced: {facts.error}",
            "see the kernel's log, too",
            f"df -h {_quoted(facts.examined)}; df -i {_quoted(facts.examined)}; "
            "sudo dmesg | tail -n 50",
        )


def _not_writable(facts: DiskFacts) -> Finding:
    what = f"{facts.examined} may not be written by this user"
    owner = owner_of(facts.folder)
    if owner is None:
        return Finding(
            Level.FAILURE,
            what,
            "make the folder for this user, or set gateway.state_dir to another",
            make_command(facts.folder),
        )
    if owner == user_name():
        return Finding(Level.FAILURE, what, "it is this user's own", repair_command(facts.folder))
    return Finding(
        Level.FAILURE,
        what,
        f"it belongs to the user {owner}: run this as that one",
        f"{as_user(owner)} tidegate doctor",
    )


def _about_mount(mount: Mount, edit: str) -> Iterator[Finding]:
    if mount.is_in_memory:
        yield Finding(
            Level.FAILURE,
            f"{mount.point} is in memory ({mount.file_system}): nothing there survives a power cut",
            "set gateway.state_dir to a folder on a disk or card",
            edit,
        )
    if mount.is_over_the_network:
        yield Finding(
            Level.WARNING,
            f"{mount.point} is over the network ({mount.file_system}), which may be away, and "
            "whose locks and syncs are not always what they say",
            "set gateway.state_dir to a folder on a disk of this machine",
        )
    if mount.file_system == "overlay":
        yield Finding(
            Level.WARNING,
            f"{mount.point} is an overlay: it may lie in memory (the read-only mode of "
            "raspi-config) or go with its container",
            "mount a real disk or volume there, or set gateway.state_dir to one",
        )
    if mount.file_system in WITHOUT_A_JOURNAL:
        yield Finding(
            Level.WARNING,
            f"{mount.file_system} has no journal: a power cut may damage all of it",
            "ext4 is what Tidegate is tested on",
        )
    yield from _about_options(mount, edit)


def _about_options(mount: Mount, edit: str) -> Iterator[Finding]:
    options = set(mount.options)
    if "ro" in options:
        is_image = mount.file_system in IMAGES
        remount = f"sudo mount -o remount,rw {_quoted(mount.point)}"
        look = "sudo dmesg | tail -n 50"
        command = edit if is_image else look if mount.was_made_read_only else remount
        yield Finding(Level.FAILURE, read_only(mount), "nothing can be stored there", command)
    if options & WITHOUT_BARRIERS:
        yield Finding(
            Level.WARNING,
            f"{mount.point} is mounted without barriers: what is synced may not be on the disk",
            "remove nobarrier or barrier=0 from /etc/fstab",
            "sudo nano /etc/fstab",
        )
    if "sync" in options:
        yield Finding(
            Level.WARNING,
            f"{mount.point} is mounted with sync, so that every write is made durable twice",
            "remove sync from /etc/fstab; the gateway syncs what must be",
            "sudo nano /etc/fstab",
        )
    if not options & ATIME and not mount.is_in_memory:
        yield Finding(
            Level.NOTE,
            f"{mount.point} is mounted without noatime: reading writes to it, too",
            "add noatime in /etc/fstab",
            "sudo nano /etc/fstab",
        )


def _about_times(facts: DiskFacts) -> Iterator[Finding]:
    times = facts.syncs
    if times is None:
        return
    is_card = facts.device is not None and facts.device.is_sd_card
    if is_card and times.p50_s < BELIEVABLE_S_MIN:
        yield Finding(
            Level.WARNING,
            f"the card seems to acknowledge before it has written: p50 {milliseconds(times.p50_s)}",
            "no software can fix this: a power cut may take what was acknowledged last; use an "
            "industrial card, eMMC or an SSD, or a supply that outlasts a power cut",
        )
    if times.p99_s > SLOW_S:
        yield Finding(
            Level.WARNING,
            f"one write in a hundred takes more than {milliseconds(SLOW_S)}: "
            f"p99 {milliseconds(times.p99_s)}",
            "another program keeps the disk busy (try iotop), or the card is worn out",
        )


def _about_room(facts: DiskFacts) -> Iterator[Finding]:
    if facts.free_bytes is None or not facts.is_journal_used:
        return
    room = facts.free_bytes + facts.journal_bytes
    if room < facts.size_max_bytes:
        yield Finding(
            Level.WARNING,
            f"the journal may take {facts.size_max_bytes // MIB} MiB, but there is room for "
            f"{room // MIB} MiB",
            "make room, or set journal.size_max lower; once the disk is full, readings are refused "
            "while the broker is away",
        )


def _quoted(path: object) -> str:
    return shlex.quote(str(path))
