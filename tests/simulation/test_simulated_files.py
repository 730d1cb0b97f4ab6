"""The simulated file system does what it says, and what a real one does while the power holds."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from gateway.storage.journal.files import Files, OsFiles
from tests.simulation.simulated_disk import BLOCK_BYTES, SECTOR_BYTES, Survival
from tests.simulation.simulated_files import LyingFiles, PowerCutError, SimulatedFiles

FOLDER = Path("journal")
PATH = FOLDER / "file"
OTHER = FOLDER / "other"


def disk(seed: int = 0, capacity_bytes: int = 1 << 40) -> SimulatedFiles:
    files = SimulatedFiles(Random(seed), capacity_bytes)
    files.make_folder(FOLDER)
    return files


def create(files: Files, octets: bytes = b"", path: Path = PATH) -> int:
    """Durable, and with a durable name."""
    file = files.open(path, create=True)
    if octets:
        files.write(file, octets, 0)
    files.sync(file)
    files.sync_folder(FOLDER)
    return file


def contents(files: Files, path: Path = PATH) -> bytes:
    file = files.open(path)
    octets = files.read(file, 1 << 20, 0)
    files.close(file)
    return octets


def after_crashes(prepare: Callable[[SimulatedFiles], None], seeds: int = 300) -> set[bytes | None]:
    """What was in the file after the power was cut; None if it was not there."""
    seen: set[bytes | None] = set()
    for seed in range(seeds):
        files = disk(seed)
        prepare(files)
        files.crash()
        seen.add(contents(files) if "file" in files.names(FOLDER) else None)
    return seen


@pytest.mark.parametrize("survival", Survival)
def test_what_was_synced_survives(survival: Survival) -> None:
    files = disk()
    file = create(files, b"old" * 1000)
    files.write(file, b"new" * 1000, 0)
    files.sync_data(file)
    files.crash(survival)
    assert contents(files) == b"new" * 1000


def test_an_unsynced_write_survives_by_sectors() -> None:
    def prepare(files: SimulatedFiles) -> None:
        file = create(files, bytes(3 * SECTOR_BYTES))
        files.write(file, b"x" * 3 * SECTOR_BYTES, 0)

    seen = {octets for octets in after_crashes(prepare) if octets is not None}
    sectors = {tuple(octets[at] for at in range(0, len(octets), SECTOR_BYTES)) for octets in seen}
    x = ord("x")
    each = {(a, b, c) for a in (0, x) for b in (0, x) for c in (0, x)}
    assert sectors == each
    assert all(
        len(set(octets[at : at + SECTOR_BYTES])) == 1
        for octets in seen
        for at in range(0, len(octets), SECTOR_BYTES)
    )


def test_a_sector_is_as_it_was_after_some_of_its_writes() -> None:
    def prepare(files: SimulatedFiles) -> None:
        file = create(files, b"....")
        files.write(file, b"1", 0)
        files.write(file, b"2", 1)
        files.write(file, b"3", 2)

    assert after_crashes(prepare) == {b"....", b"1...", b"12..", b"123."}


def test_a_file_may_grow_without_its_data() -> None:
    def prepare(files: SimulatedFiles) -> None:
        files.write(create(files), b"data", 0)

    assert after_crashes(prepare) == {b"", bytes(4), b"data"}


def test_a_new_name_may_be_gone_until_its_folder_is_synced() -> None:
    def unsynced(files: SimulatedFiles) -> None:
        files.sync(files.open(PATH, create=True))

    def synced(files: SimulatedFiles) -> None:
        unsynced(files)
        files.sync_folder(FOLDER)

    assert after_crashes(unsynced) == {None, b""}
    assert after_crashes(synced) == {b""}


def test_a_removed_file_may_come_back_until_its_folder_is_synced() -> None:
    def unsynced(files: SimulatedFiles) -> None:
        create(files, b"data")
        files.remove(PATH)

    def synced(files: SimulatedFiles) -> None:
        unsynced(files)
        files.sync_folder(FOLDER)

    assert after_crashes(unsynced) == {None, b"data"}
    assert after_crashes(synced) == {None}


def test_a_renamed_file_has_its_old_or_its_new_name() -> None:
    seen = set()
    for seed in range(100):
        files = disk(seed)
        create(files, b"new")
        create(files, b"old", OTHER)
        files.rename(PATH, OTHER)
        files.crash()
        seen.add(
            tuple((name, contents(files, FOLDER / name)) for name in sorted(files.names(FOLDER)))
        )
    assert seen == {(("other", b"new"),), (("file", b"new"), ("other", b"old"))}


def test_steps_on_other_files_survive_in_any_order_and_those_on_one_in_theirs() -> None:
    seen = set()
    for seed in range(300):
        files = disk(seed)
        create(files)
        files.rename(PATH, OTHER)
        files.rename(OTHER, FOLDER / "third")
        files.open(FOLDER / "fourth", create=True)
        files.crash()
        seen.add(tuple(sorted(files.names(FOLDER))))
    first = {("file",), ("other",), ("third",)}
    assert seen == first | {tuple(sorted(("fourth", *names))) for names in first}


def test_a_failed_sync_is_told_once_and_its_data_never_reaches_the_disk() -> None:
    def prepare(files: SimulatedFiles) -> None:
        file = create(files, b"old")
        files.write(file, b"new", 0)
        files.faults.sync_fails = 1.0
        with pytest.raises(OSError, match="Input/output error"):
            files.sync_data(file)
        files.faults.sync_fails = 0.0
        files.sync_data(file)
        assert contents(files) == b"new"

    assert after_crashes(prepare) == {b"old", b"new"}


def test_the_page_cache_outlives_the_program_but_what_a_sync_lost_may_be_evicted() -> None:
    files = disk()
    file = create(files, b"old")
    files.write(file, b"new", 0)
    files.kill()
    assert contents(files) == b"new"

    seen = set()
    for seed in range(50):
        files = disk(seed)
        file = create(files, b"old")
        files.write(file, b"new", 0)
        files.faults.sync_fails = 1.0
        with pytest.raises(OSError, match="Input/output error"):
            files.sync(file)
        files.kill()
        seen.add(contents(files))
    assert seen == {b"old", b"new"}


def test_the_disk_runs_full_and_has_room_again() -> None:
    files = disk(capacity_bytes=2 * BLOCK_BYTES)
    file = files.open(PATH, create=True)
    assert files.write(file, bytes(3 * BLOCK_BYTES), 0) == 2 * BLOCK_BYTES
    with pytest.raises(OSError, match="No space") as raised:
        files.write(file, b"x", 2 * BLOCK_BYTES)
    assert raised.value.errno == errno.ENOSPC
    assert files.write(file, b"x", 0) == 1  # in its own place
    files.remove(PATH)
    assert files.used_bytes == 2 * BLOCK_BYTES  # it is still open
    files.close(file)
    assert files.used_bytes == 0
    assert files.write(files.open(PATH, create=True), b"x", 0) == 1


def test_a_hole_of_a_sparse_file_needs_space() -> None:
    files = disk(capacity_bytes=BLOCK_BYTES)
    file = files.open(PATH, create=True)
    files.truncate(file, 4 * BLOCK_BYTES)
    assert files.read(file, 2, 0) == bytes(2)
    assert files.write(file, b"x", 0) == 1
    with pytest.raises(OSError, match="No space"):
        files.write(file, b"x", BLOCK_BYTES)
    files.truncate(file, 0)
    assert files.write(file, b"x", BLOCK_BYTES) == 1


def test_a_removed_file_that_comes_back_takes_its_space_again() -> None:
    files = disk()
    files.close(create(files, bytes(BLOCK_BYTES)))
    files.remove(PATH)
    assert files.used_bytes == 0
    files.crash(Survival.NOTHING)
    assert files.used_bytes == BLOCK_BYTES


def test_the_program_stops_before_or_after_any_call() -> None:
    calls = 7
    for stop in range(1, calls + 1):
        for before in (True, False):
            files = disk()
            files.stop_in(stop, before=before)
            with pytest.raises(PowerCutError):
                rewrite(files)
            with pytest.raises(PowerCutError):
                files.names(FOLDER)
            files.kill()
            done = stop - before
            names = files.names(FOLDER)
            assert sorted(names) == ([] if done < 1 else ["file"] if done < 6 else ["other"])
            if done >= 2:
                assert contents(files, FOLDER / names[0]) == b"data"
    files = disk()
    files.stop_in(calls + 1)
    rewrite(files)


def test_the_power_can_go_at_one_kind_of_call() -> None:
    files = disk()
    files.stop_in(1, "rename")
    with pytest.raises(PowerCutError):
        rewrite(files)
    files.kill()
    assert files.names(FOLDER) == ["file"]


def rewrite(files: Files) -> None:
    file = files.open(PATH, create=True)
    files.write(file, b"data", 0)
    files.sync_data(file)
    files.read(file, 1, 0)
    files.close(file)
    files.rename(PATH, OTHER)
    files.sync_folder(FOLDER)


def test_reads_and_writes_can_be_short() -> None:
    files = disk()
    file = create(files, b"0123456789")
    files.faults.short_write = files.faults.short_read = 1.0
    assert 0 < files.write(file, b"9876543210", 0) < 10
    assert 0 < len(files.read(file, 10, 0)) < 10


@pytest.mark.parametrize(
    ("fault", "call"),
    [
        ("write_fails", lambda files, file: files.write(file, b"x", 0)),
        ("sync_fails", lambda files, file: files.sync(file)),
        ("sync_folder_fails", lambda files, _: files.sync_folder(FOLDER)),
        ("open_fails", lambda files, _: files.open(PATH)),
        ("rename_fails", lambda files, _: files.rename(PATH, OTHER)),
    ],
)
def test_calls_fail_as_often_as_told(
    fault: str, call: Callable[[SimulatedFiles, int], object]
) -> None:
    files = disk()
    file = create(files, b"old")
    setattr(files.faults, fault, 1.0)
    with pytest.raises(OSError, match="Input/output error"):
        call(files, file)
    setattr(files.faults, fault, 0.0)
    call(files, file)


def test_rot_is_seen_by_the_next_reader_and_after_a_crash() -> None:
    files = disk()
    create(files, b"\x00\x00")
    files.flip_bit(PATH, 9)
    assert contents(files) == b"\x00\x02"
    files.crash()
    assert contents(files) == b"\x00\x02"


def test_a_spoilt_block_cannot_be_read_until_it_is_written() -> None:
    files = disk()
    file = create(files, bytes(2 * BLOCK_BYTES))
    files.spoil(PATH, BLOCK_BYTES)
    assert files.read(file, BLOCK_BYTES, 0) == bytes(BLOCK_BYTES)
    with pytest.raises(OSError, match="Input/output error"):
        files.read(file, 2, BLOCK_BYTES - 1)
    files.write(file, bytes(BLOCK_BYTES), BLOCK_BYTES)
    assert files.read(file, 2, BLOCK_BYTES - 1) == bytes(2)


def test_something_else_can_happen_before_any_call() -> None:
    files = disk()
    calls: list[int] = []
    files.meanwhile = lambda: calls.append(files.calls)
    rewrite(files)
    assert calls == [*range(2, 9)]


def test_a_card_that_lies_forgets_its_last_writes_and_no_others() -> None:
    lost = set()
    for seed in range(100):
        files = LyingFiles(Random(seed), forgets=8)
        files.make_folder(FOLDER)
        file = files.open(PATH, create=True)
        files.sync_folder(FOLDER)
        for offset in range(100):
            files.write(file, bytes((offset,)), offset)
            files.sync_data(file)
        files.crash()
        kept = contents(files)
        assert kept[:92] == bytes(range(92))
        lost.add(kept)
    assert len(lost) > 1


def test_one_seed_is_one_history() -> None:
    def history(seed: int) -> list[str]:
        files = disk(seed)
        trace: list[str] = []
        files.trace = trace.append
        files.faults.sync_fails = files.faults.short_write = 0.3
        random_operations(files, Random(1), FOLDER)
        files.crash()
        return trace + [f"{path} {size}" for path, size in sorted(files.sizes().items())]

    assert history(1) == history(1)
    assert history(1) != history(2)


@pytest.mark.parametrize("seed", range(20))
def test_without_faults_it_does_what_a_real_one_does(seed: int, tmp_path: Path) -> None:
    simulated, real = disk(), OsFiles()
    folder = tmp_path / "journal"
    real.make_folder(folder)
    seen = random_operations(simulated, Random(seed), FOLDER)
    assert seen == random_operations(real, Random(seed), folder)
    assert len(seen) > 100
    assert {name: contents(simulated, FOLDER / name) for name in simulated.names(FOLDER)} == {
        name: contents(real, folder / name) for name in real.names(folder)
    }


def random_operations(files: Files, dice: Random, folder: Path) -> list[object]:
    """What each of them answered; of an error, which."""
    seen: list[object] = []
    opened: list[int] = []
    for _ in range(200):
        path = folder / dice.choice("abc")
        other = folder / dice.choice("abc")
        offset, octets = dice.randrange(3 * BLOCK_BYTES), dice.randbytes(dice.randrange(1, 5000))
        try:
            match dice.randrange(9):
                case 0 | 1:
                    opened.append(files.open(path, create=dice.random() < 0.5))
                    seen.append("opened")
                case 2:
                    files.rename(path, other)
                case 3:
                    files.remove(path)
                case 4:
                    seen.append(sorted(files.names(folder)))
                    files.sync_folder(folder)
                case _ if opened:
                    use(files, dice, opened, seen, offset, octets)
        except OSError as error:
            seen.append(error.errno)
    for file in opened:
        files.close(file)
    return seen


def use(
    files: Files, dice: Random, opened: list[int], seen: list[object], offset: int, octets: bytes
) -> None:
    place = dice.randrange(len(opened))
    file = opened[place]
    match dice.randrange(8):
        case 0 | 1 | 2:
            seen.append(files.write(file, octets, offset))
        case 3 | 4:
            seen.append(files.read(file, len(octets), offset))
        case 5:
            seen.append(files.entry_of(file).size)
        case 6:
            files.truncate(file, offset)
            files.sync_data(file)
        case _:
            files.close(opened.pop(place))
            seen.append("closed")
