"""The file of a backup as input from outside: what is not whole, or not ours, is refused."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from pathlib import Path
from random import Random

import pytest

from gateway.storage.backup.archive import FORMAT, BackupError, BackupHeader, Reader, Writer
from gateway.storage.backup.restore import look

HEAD = BackupHeader(FORMAT, "1.2.3", "greenhouse", 1_790_000_000, has_secrets=False)
PARTS = {
    "config.toml": b"[gateway]\n",
    "files/upstream.ca_file": b"-----BEGIN CERTIFICATE-----",
    "state/state.db": bytes(range(256)) * 20,
    "state/announced.jsonl": b'["tidegate/gh/clients/a", "a", []]\n',
    "state/journal/00000000000000000000-0000000001-28bca452.segment": b"\0" * 5000,
}


def written(path: Path, parts: dict[str, bytes] | None = None) -> Path:
    writer = Writer(path, HEAD)
    for name, octets in (PARTS if parts is None else parts).items():
        writer.add(name, octets)
    writer.close()
    return path


def everything(path: Path) -> dict[str, bytes]:
    reader = Reader(path)
    try:
        return {part.name: part.read() for part in reader.parts()}
    finally:
        reader.close()


def members(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(path) as archive:
        return [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]


def rewritten(path: Path, content: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, octets in content:
            member.size = len(octets)
            archive.addfile(member, io.BytesIO(octets))
    return path


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    path = written(tmp_path / "b")
    assert everything(path) == PARTS
    found = look(path)
    assert found.head == HEAD
    assert (found.config, found.segments, found.segment_bytes) == (b"[gateway]\n", 1, 5000)
    assert path.stat().st_mode & 0o777 == 0o600


def test_any_archiver_opens_it(tmp_path: Path) -> None:
    with tarfile.open(written(tmp_path / "b")) as archive:
        names = archive.getnames()
    assert names == ["tidegate-backup.json", *PARTS, "checksums.json"]


def test_a_file_that_was_cut_off_anywhere_is_refused_or_only_lacks_its_padding(
    tmp_path: Path,
) -> None:
    octets = written(tmp_path / "b").read_bytes()
    cut, whole = tmp_path / "cut", 0
    for length in range(0, len(octets), 7):
        cut.write_bytes(octets[:length])
        try:
            assert everything(cut) == PARTS, f"{length} of {len(octets)} bytes"
            whole += 1
        except BackupError as error:
            assert re.search("is damaged|is no backup", str(error))  # noqa: PT017 - one of two
            assert not whole, "what is longer is no worse"
    assert whole < 10


def test_a_changed_octet_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    octets = written(tmp_path / "b").read_bytes()
    dice, spoilt = Random(1), tmp_path / "spoilt"
    refused = 0
    for position in range(len(octets)):
        changed = bytearray(octets)
        changed[position] ^= 1 << dice.randrange(8)
        spoilt.write_bytes(changed)
        try:
            assert everything(spoilt) == PARTS, f"byte {position}"
        except BackupError:
            refused += 1
    assert refused > 0.9 * len(octets)


def test_a_changed_part_is_named_even_if_the_archive_is_sound(tmp_path: Path) -> None:
    content = members(written(tmp_path / "b"))
    content[3] = (content[3][0], b"other octets")
    with pytest.raises(BackupError, match=r"state/state\.db is not what was put in"):
        everything(rewritten(tmp_path / "changed", content))


def test_an_archive_without_its_last_part_is_refused(tmp_path: Path) -> None:
    content = members(written(tmp_path / "b"))
    for less in (content[:-1], content[:1], content[:-2] + content[-1:]):
        with pytest.raises(BackupError, match=r"ends too early|is not what was put in"):
            everything(rewritten(tmp_path / "less", less))


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "state/../../x",
        "state/journal/../x.segment",
        "files/../x",
        "state/journal/" + "0" * 70 + ".segment",
        "state/lock",
        "else",
    ],
)
def test_a_part_of_another_name_is_refused(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "b", {**PARTS, name: b"x"})
    with pytest.raises(BackupError, match="unexpected"):
        everything(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
)
def test_a_part_that_is_no_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    content = members(written(tmp_path / "b"))
    link = tarfile.TarInfo("state/state.db")
    link.type, link.linkname = kind, "/etc/passwd"
    content[3] = (link, b"")
    with pytest.raises(BackupError, match="unexpected"):
        everything(rewritten(tmp_path / "linked", content))


def test_a_part_that_comes_twice_or_is_too_large_is_refused(tmp_path: Path) -> None:
    content = members(written(tmp_path / "b"))
    with pytest.raises(BackupError, match="unexpected"):
        everything(rewritten(tmp_path / "twice", [*content[:2], *content[1:]]))
    name = "state/journal/00000000000000000000-0000000001-28bca452.segment"
    large = written(tmp_path / "large", {name: bytes((64 << 20) + 1)})
    with pytest.raises(BackupError, match="is too large"):
        everything(large)


def test_a_newer_format_is_refused_by_its_name(tmp_path: Path) -> None:
    content = members(written(tmp_path / "b"))
    told = json.loads(content[0][1]) | {"format": FORMAT + 1, "release": "9.9"}
    content[0] = (content[0][0], json.dumps(told).encode())
    with pytest.raises(BackupError) as refused:
        Reader(rewritten(tmp_path / "newer", content))
    assert "was written by a newer release, '9.9' (format 4; this one reads up to 3)" in str(
        refused.value
    )


@pytest.mark.parametrize(
    "octets",
    [b"", b"hello", gzip.compress(b""), gzip.compress(b"hello"), b"\x1f\x8b", bytes(2000)],
    ids=["empty", "text", "empty gzip", "gzip", "its magic", "zeros"],
)
def test_what_is_no_backup_is_refused(tmp_path: Path, octets: bytes) -> None:
    path = tmp_path / "b"
    path.write_bytes(octets)
    with pytest.raises(BackupError, match=r"is no backup of Tidegate|is damaged"):
        Reader(path)


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "b", [(tarfile.TarInfo("holiday.jpg"), b"x")])
    with pytest.raises(BackupError, match="is no backup of Tidegate"):
        Reader(path)


@pytest.mark.parametrize(
    "head",
    [
        b"[]",
        b"7",
        b"{}",
        b'{"format": "1"}',
        b'{"format": 1}',
        b"\xff",
        b'{"format": 1, "taken_at": "x"}',
    ],
)
def test_a_head_that_makes_no_sense_is_refused(tmp_path: Path, head: bytes) -> None:
    content = members(written(tmp_path / "b"))
    content[0] = (content[0][0], head)
    with pytest.raises(BackupError, match="is damaged"):
        Reader(rewritten(tmp_path / "odd", content))
