"""Gathers what is to be known of the disk below `gateway.state_dir`, and says it plainly."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gateway.cli.doctor.block_device import BlockDevice, block_device
from gateway.cli.doctor.syncs import SyncTimes, measure
from gateway.cli.progress import Progress
from gateway.config.mounts import Mount, existing, free_bytes, mount_of, taken_bytes
from gateway.config.settings import MIB, Settings
from gateway.host.causes import cause, has_no_inodes


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """`folder` is what is to be used, `examined` it or the nearest folder above that is there,
    `in_the_way` what stands between the two.

    `error` says why `syncs` could not be measured. `journal_bytes` is what the journal has already
    of the `size_max_bytes` that it may take.
    """

    folder: Path
    examined: Path
    is_writable: bool
    in_the_way: Path | None = None
    mount: Mount | None = None
    device: BlockDevice | None = None
    free_bytes: int | None = None
    journal_bytes: int = 0
    size_max_bytes: int = 0
    is_journal_used: bool = True
    syncs: SyncTimes | None = None
    error: str | None = None
    has_no_inodes: bool = False


def answers(settings: Settings) -> None:
    """A small file, made and synced, and a look around: what hangs here would hang the rest."""
    folder = existing(settings.gateway.state_dir.absolute())
    free_bytes(folder)
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return
    path = folder / f"doctor-{os.getpid()}.measuring"
    with suppress(OSError):  # reported by the examination that follows
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, b"tide")
                os.fsync(file)
            finally:
                os.close(file)
        finally:
            path.unlink(missing_ok=True)


def examine(settings: Settings, syncs: int) -> DiskFacts:
    folder = settings.gateway.state_dir.absolute()
    examined = existing(folder)
    mount = mount_of(folder)
    is_writable = os.access(examined, os.W_OK | os.X_OK, effective_ids=True)
    times, error = _measured(examined, syncs) if is_writable else (None, None)
    return DiskFacts(
        folder=folder,
        examined=examined,
        is_writable=is_writable,
        in_the_way=_in_the_way(folder, examined),
        mount=mount,
        device=None if mount is None else block_device(mount),
        free_bytes=free_bytes(folder),
        journal_bytes=taken_bytes(settings.gateway.journal_dir),
        size_max_bytes=settings.journal.size_max_bytes,
        is_journal_used=settings.stores_readings,
        syncs=times,
        error=error,
        has_no_inodes=has_no_inodes(folder),
    )


def _in_the_way(folder: Path, examined: Path) -> Path | None:
    if folder == examined or not folder.is_relative_to(examined):
        return None
    next_one = examined / folder.relative_to(examined).parts[0]
    return next_one if os.path.lexists(next_one) else None


def _measured(folder: Path, count: int) -> tuple[SyncTimes | None, str | None]:
    progress = Progress(lambda done: f"measuring {folder}: {done} of {count}")
    try:
        return measure(folder, count, progress.at), None
    except OSError as error:
        return None, cause(error, folder)
    finally:
        progress.end()


def described(facts: DiskFacts) -> Iterator[tuple[str, str]]:
    """For people: what, and how it is."""
    is_there = facts.folder == facts.examined
    yield "folder", f"{facts.folder}" + ("" if is_there else f", not there yet: {facts.examined}")
    if facts.mount is not None:
        mount, device = facts.mount, facts.device
        known = [] if device is None else [part for part in (device.kind, device.model) if part]
        on = f" ({', '.join(known)})" if known else ""
        yield "file system", f"{mount.file_system} on {mount.source}{on}"
        yield "mounted", f"{mount.point}, {','.join(mount.options)}"
    if facts.free_bytes is not None:
        wanted = f"journal.size_max is {facts.size_max_bytes // MIB} MiB"
        has = f"the journal has {facts.journal_bytes // MIB} MiB"
        yield "free", f"{facts.free_bytes // MIB} MiB; {wanted}, {has}"
    if facts.syncs is not None:
        times = facts.syncs
        yield (
            "fdatasync",
            f"p50 {milliseconds(times.p50_s)}, p99 {milliseconds(times.p99_s)}, "
            f"worst {milliseconds(times.worst_s)}, of {times.count}",
        )


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def facts_as_json(facts: DiskFacts) -> dict[str, Any]:
    mount = facts.mount
    return {
        "folder": str(facts.folder),
        "examined": str(facts.examined),
        "is_writable": facts.is_writable,
        "in_the_way": None if facts.in_the_way is None else str(facts.in_the_way),
        "mount": None if mount is None else asdict(mount) | {"options": list(mount.options)},
        "device": None if facts.device is None else asdict(facts.device),
        "free_bytes": facts.free_bytes,
        "journal_bytes": facts.journal_bytes,
        "size_max_bytes": facts.size_max_bytes,
        "fdatasync": None if facts.syncs is None else asdict(facts.syncs),
        "error": facts.error,
    }
