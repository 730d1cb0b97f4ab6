"""An archive makes the files that a backup holds, where they belong, or nothing at all."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from gateway.config.credential import FILE_KEYS, named_files
from gateway.config.settings import Settings
from gateway.storage.backup import placing
from gateway.storage.backup import restore as restoring
from gateway.storage.backup.archive import (
    FORMAT,
    BackupError,
    BackupHeader,
    Owner,
    Reader,
    Writer,
)
from gateway.storage.backup.guarded import Folder
from gateway.storage.backup.restore import look
from tests.storage.backup.any_archive import (
    CONFIG,
    MADE,
    PARTS,
    SEGMENT,
    Members,
    archive,
    head_rewritten,
    made_in,
    member,
    members_of,
    one_archive,
    restored,
)
from tests.storage.backup.test_guarded import AS_ROOT, snapshot_of
from tests.support.samples import named, seeds

REPOSITORY = Path(__file__).resolve().parents[3]
RESTORES = "/srv/any-archives"
NO_OVERLAY = 75
# Prints what was written.
IN_A_ROOT_OF_ITS_OWN = f"""
folder=$1 repository=$2 python=$3 place=$4 count=$5
mount -t tmpfs none "$folder" && cd "$folder" || exit {NO_OVERLAY}
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work none root || exit {NO_OVERLAY}
for each in proc dev; do mount --rbind "/$each" "root/$each"; done
restore() {{
    chroot root sh -ec 'cd "$0" && exec "$@"' "$repository" \
        "$python" -m tests.storage.backup.any_archive "$place" "$1"
}}
restore 0 || exit {NO_OVERLAY} # where the sources are on another file system
restore "$count"
cd upper && find . -mindepth 1 | cut -c 2-
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where it goes, with a folder beside it that nothing may reach."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "witness").write_text("here")
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def test_a_sound_one_makes_what_it_holds_and_nothing_else(place: Path, tmp_path: Path) -> None:
    assert restored(place, archive(tmp_path / "b", members_of(PARTS))) == 0
    assert made_in(place) == MADE
    assert (place / "secrets" / "password").read_bytes() == b"tide"


def test_the_names_are_those_of_the_configuration() -> None:
    upstream = Settings().upstream
    every = {key: Path("/x") for key in ("password_file", "ca_file", "cert_file", "key_file")}
    settings = replace(Settings(), upstream=replace(upstream, **every))  # type: ignore[arg-type]
    page = {key: Path("/x") for key in ("password_file", "certificate", "key")}
    dtls = {key: Path("/x") for key in ("certificate", "key", "ca", "crl", "allow_file")}
    settings = replace(
        settings,
        admin=replace(settings.admin, **page),  # type: ignore[arg-type]
        dtls=replace(settings.dtls, **dtls),  # type: ignore[arg-type]
        security=replace(settings.security, keys_file=Path("/x")),
    )
    assert tuple(named_files(settings)) == FILE_KEYS


# One thing each that no backup has


def renamed(name: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members.insert(-1, (member(name), b"x"))

    return change


def of_type(kind: bytes, **fields: object) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        odd = member("state/state.db")
        odd.type = kind
        for name, value in fields.items():
            setattr(odd, name, value)
        members[4] = (odd, b"")

    return change


def with_fields(place: int = 4, **fields: object) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        for name, value in fields.items():
            setattr(members[place][0], name, value)

    return change


def twice(members: Members) -> None:
    members.insert(3, members[2])


def after_the_end(members: Members) -> None:
    members.append((member("state/state.db"), b"x"))


def with_checksums(content: bytes) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members[-1] = (members[-1][0], content)

    return change


def with_head(**fields: object) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        told = json.loads(members[0][1]) | fields
        members[0] = (members[0][0], json.dumps(told).encode())

    return change


ODD: dict[str, Callable[[Members], None]] = {
    "absolute": renamed("/etc/cron.d/x"),
    "above": renamed("state/journal/../../../outside/witness"),
    "above by a key": renamed("files/.."),
    "another key": renamed("files/upstream.url"),
    "a key that is a path": renamed("files/../../outside/witness"),
    "a dot before": renamed("./state/epoch"),
    "two slashes": renamed("state//state.db"),
    "a slash behind": renamed("state/state.db/"),
    "another case": renamed("state/STATE.DB"),
    "another case of a folder": renamed("State/state.db"),
    "capital digits": renamed(SEGMENT.replace("28bca452", "28BCA452")),
    "another form": renamed("state/state\uff0edb"),
    "digits of another script": renamed(SEGMENT.replace("0000000001", "000000000\u0661")),
    "a combining accent": renamed("config.toml\u0301"),
    "a line end": renamed("config.toml\n"),
    "a null": renamed("config.toml\0.x"),
    "the lock": renamed("state/lock"),
    "the epoch": renamed("state/epoch"),
    "the log": renamed("state/state.db-wal"),
    "the mark": renamed("state/restore.unfinished"),
    "a long name": renamed("state/journal/" + "0" * 300 + ".segment"),
    "no name": renamed(""),
    "twice": twice,
    "after the end": after_the_end,
    "a link": of_type(tarfile.SYMTYPE, linkname="/etc/shadow"),
    "a hard link": of_type(tarfile.LNKTYPE, linkname="config.toml"),
    "a device": of_type(tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a disk": of_type(tarfile.BLKTYPE, devmajor=8),
    "a pipe": of_type(tarfile.FIFOTYPE),
    "a folder": of_type(tarfile.DIRTYPE),
    "sparse": of_type(tarfile.GNUTYPE_SPARSE),
    "contiguous": of_type(tarfile.CONTTYPE),
    "of a kind that is none": of_type(b"9"),
    "sparse by an extension": with_fields(
        pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x"}
    ),
    "another name by an extension": with_fields(pax_headers={"path": "../outside/witness"}),
    "an extension of any size": with_fields(pax_headers={"comment": "x" * 100_000}),
    "setuid": with_fields(mode=0o4755),
    "setgid": with_fields(2, mode=0o2755),
    "sticky": with_fields(2, mode=0o1777),
    "a user by number": with_fields(uid=33),
    "a group by number": with_fields(gid=33),
    "a user of the state": with_fields(uname="www-data", gname="www-data"),
    "rights for all on the state": with_fields(mode=0o666),
    "no checksums": with_checksums(b""),
    "checksums that are a list": with_checksums(b"[]"),
    "checksums that are a number": with_checksums(b"NaN"),
    "checksums of other kinds": with_checksums(b'{"config.toml": {"a": []}}'),
    "deep checksums": with_checksums(b"[" * 1500),
    "large checksums": with_checksums(b'{"a": "' + b"x" * 100_000 + b'"}'),
    "a time that is none": with_head(taken_at=float("inf")),
    "a time that no clock has": with_head(taken_at=1 << 60),
    "a time before 1970": with_head(taken_at=-1),
    "a name that moves the cursor": with_head(gateway="\x1b[2J"),
    "format 0": with_head(format=0),
}


@pytest.mark.parametrize("with_force", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_what_no_backup_has_is_refused_before_anything_is_written(
    place: Path, tmp_path: Path, name: str, with_force: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    members = members_of(PARTS)
    ODD[name](members)
    path = archive(tmp_path / "b", members)
    before = snapshot_of(tmp_path)
    assert restored(place, path, *(["--force"] if with_force else [])) == 1
    assert "tidegate restore: " in capsys.readouterr().err
    assert snapshot_of(tmp_path) == before


def test_a_chain_of_extensions_is_refused(tmp_path: Path) -> None:
    """Each is read within the one before it."""
    link = tarfile.TarInfo("x")
    link.type, link.size = tarfile.XHDTYPE, 512
    block = link.tobuf(tarfile.USTAR_FORMAT) + b"12 uname=ab\n".ljust(512, b"\0")
    first = members_of(PARTS)[0]
    first[0].size = len(first[1])
    start = first[0].tobuf() + first[1].ljust(512, b"\0")
    (tmp_path / "b").write_bytes(gzip.compress(start + block * 3000))
    with pytest.raises(BackupError, match="is damaged"):
        look(tmp_path / "b")


def test_a_size_that_the_file_does_not_have_is_refused(tmp_path: Path) -> None:
    for size in (b"77777777777\0", b"\x80" + b"\xff" * 11, b"\xff" * 12):
        path = archive(tmp_path / "b", members_of(PARTS))
        content = gzip.decompress(path.read_bytes())
        at = content.index(b"state/state.db\0")
        path.write_bytes(gzip.compress(head_rewritten(content, at, 124, size)))
        with pytest.raises(BackupError, match=r"is damaged|is too large"):
            look(path)


# Configurations of the archive's own


def with_config(text: str, *more: str) -> dict[str, bytes]:
    return {**PARTS, "config.toml": text.encode(), **dict.fromkeys(more, b"evil")}


@pytest.mark.parametrize(
    "path",
    ["../outside/new", "{outside}/new", "secrets/../../outside/new", "link/new", "deep/link/new"],
)
def test_no_file_is_written_outside_of_the_configurations_folder(
    place: Path, tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    (place / "link").symlink_to(outside)
    (place / "deep").mkdir()
    (place / "deep" / "link").symlink_to(outside)
    text = CONFIG.decode().replace("ca.pem", path.format(outside=outside))
    members = members_of(with_config(text))
    assert restored(place, archive(tmp_path / "b", members)) == 0
    assert "lies outside of the configuration's folder and was not written" in (
        capsys.readouterr().err
    )
    assert made_in(outside) == {"witness"}
    assert restored(place, archive(tmp_path / "b", members), "--force") == 0
    assert "--force: upstream.ca_file" in capsys.readouterr().err
    assert made_in(outside) == {"witness", "new"}


def test_a_file_that_is_there_outside_stays(place: Path, tmp_path: Path) -> None:
    text = CONFIG.decode().replace("ca.pem", "../outside/witness")
    assert restored(place, archive(tmp_path / "b", members_of(with_config(text)))) == 0
    assert (tmp_path / "outside" / "witness").read_text() == "here"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("config.toml", "is named twice"),
        ("secrets/password", "is named twice"),
        ("state/state.db", "would be a file of the state"),
        ("state/journal/x", "would be a file of the state"),
        ("state/.restoring", "would be a file of the state"),
        ("state", "would be a file of the state"),
    ],
)
def test_two_files_of_one_name_are_refused(
    place: Path, tmp_path: Path, path: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.decode().replace("ca.pem", path)
    archive(tmp_path / "b", members_of(with_config(text)))
    before = snapshot_of(tmp_path)
    for more in ((), ("--force",)):
        assert restored(place, tmp_path / "b", *more) == 1
        assert what in capsys.readouterr().err
    assert snapshot_of(tmp_path) == before


def test_a_folder_with_other_files_is_no_state_folder(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONFIG.decode().replace('"state"', '"../outside"')
    archive(tmp_path / "b", members_of(with_config(text)))
    before = snapshot_of(tmp_path)
    assert restored(place, tmp_path / "b") == 1
    assert "outside holds no gateway's state but other files ('witness')" in capsys.readouterr().err
    assert snapshot_of(tmp_path) == before
    assert restored(place, tmp_path / "b", "--force") == 0
    assert "holds other files as well" in capsys.readouterr().err
    assert (tmp_path / "outside" / "witness").read_text() == "here"


def test_what_does_not_fit_on_the_disk_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(tmp_path / "b", members_of(PARTS))
    monkeypatch.setattr(restoring, "_ROOM_BYTES", 1 << 60)
    before = snapshot_of(tmp_path)
    assert restored(place, tmp_path / "b") == 1
    assert "and the state in the backup takes 9182: make room first" in capsys.readouterr().err
    assert snapshot_of(tmp_path) == before


# Rights


@AS_ROOT
@pytest.mark.parametrize(
    ("user", "group", "owner"),
    [
        ("root", "root", (0, 0)),
        ("games", "games", (5, 60)),  # who has the state folder here
        ("nobody", "nogroup", None),
        ("root", "nogroup", None),
        ("no-such-user", "x", (0, 60)),
        ("", "", (0, 60)),
    ],
)
def test_only_root_and_the_gateways_user_get_files(
    place: Path, tmp_path: Path, user: str, group: str, owner: tuple[int, int] | None
) -> None:
    """Numbers of users are those of Debian."""
    (place / "state").mkdir()
    os.chown(place / "state", 5, 60)
    members = members_of(PARTS)
    with_fields(1, uname=user, gname=group, mode=0o777)(members)
    archive(tmp_path / "b", members)
    code = restored(place, tmp_path / "b")
    if owner is None:
        assert code == 1
        assert made_in(place) == {"state"}
        assert restored(place, tmp_path / "b", "--force") == 0
        owner = (0, 60)
    status = (place / "config.toml").stat()
    assert (status.st_uid, status.st_gid) == owner
    assert stat.S_IMODE(status.st_mode) == 0o644, "none but its owner may write to it"


def test_who_has_the_file_here_may_have_it_again(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    mine = Owner.of(path.stat())
    ids, mode = placing._rights_of(path, mine, (4242, 4242))
    assert ids is not None
    assert mode == path.stat().st_mode & 0o644 | 0o600


# All or nothing


def failing(number: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The change of that number fails as a disk would; the changes so far."""
    done: list[str] = []

    def broken(name: str, original: Callable[..., object]) -> Callable[..., object]:
        def change(*given: object, **named: object) -> object:
            done.append(name)
            if len(done) == number:
                raise OSError(5, "Input/output error")
            return original(*given, **named)

        return change

    for name in ("rename", "link", "mkdir", "fsync", "fchmod", "chmod", "open"):
        monkeypatch.setattr(os, name, broken(name, getattr(os, name)))
    return done


def in_use(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Without what a restore before could not remove, which the next one does."""
    return {name: found for name, found in snapshot_of(folder).items() if ".former" not in name}


@pytest.mark.parametrize("is_there", [False, True])
def test_a_restore_that_fails_anywhere_changes_nothing(
    place: Path, tmp_path: Path, is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive(tmp_path / "b", members_of(PARTS))
    if is_there:  # with a `before-restore`, and files that are others
        for _ in range(2):
            assert restored(place, path, "--force") == 0
            for name in ("config.toml", "ca.pem"):
                (place / name).write_text((place / name).read_text() + "# mine\n")
    before = in_use(tmp_path)
    number, failed = 0, 0
    while True:
        number += 1
        with pytest.MonkeyPatch.context() as monkeypatch:
            done = failing(number, monkeypatch)
            code = restored(place, path, "--force")
        if len(done) < number:
            assert code == 0
            break
        if code:
            failed += 1
            assert in_use(tmp_path) == before, f"{number}: {done[-1]}"
        else:  # it could do without, as when what is of no use any more is removed
            assert not (place / "state" / "restore.unfinished").exists()
            before = in_use(tmp_path)
    assert failed > 20
    capsys.readouterr()


def test_a_restore_that_cannot_be_taken_back_leaves_the_mark(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "b", members_of(PARTS))
    assert restored(place, path) == 0
    rename = Folder.rename
    calls = 0

    def broken(folder: Folder, name: str, to: Folder, new_name: str) -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise OSError(5, "Input/output error")
        rename(folder, name, to, new_name)

    monkeypatch.setattr(Folder, "rename", broken)
    assert restored(place, path, "--force") == 73
    assert (place / "state" / "restore.unfinished").exists()
    monkeypatch.undo()
    assert restored(place, path, "--force") == 0
    assert not (place / "state" / "restore.unfinished").exists()
    assert made_in(place) >= MADE


def test_an_archive_that_changes_while_it_is_read_changes_nothing(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive(tmp_path / "b", members_of(PARTS))
    room = restoring._check_room

    def exchange(*given: object) -> None:
        archive(path, members_of({**PARTS, SEGMENT: b"\1" * 5000}))
        room(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(restoring, "_check_room", exchange)
    assert restored(place, path) == 1
    assert "was changed while it was read" in capsys.readouterr().err
    assert made_in(place) == set()


# Any archive


@pytest.mark.parametrize("numbers", seeds(120, 3000, each=30))
def test_any_archive_makes_its_files_or_none(
    tmp_path_factory: pytest.TempPathFactory, numbers: range
) -> None:
    codes = set()
    for seed in numbers:
        with named(seed=seed):
            codes.add(one_archive(tmp_path_factory.mktemp("any"), Random(seed)))
    assert codes >= {0, 1}


@AS_ROOT
def test_as_root_no_archive_changes_a_file_elsewhere_on_the_machine(tmp_path: Path) -> None:
    """In a root of its own over this one: what they write anywhere lies in the upper layer."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", IN_A_ROOT_OF_ITS_OWN]
    done = subprocess.run(
        [*command, "sh", tmp_path, REPOSITORY, sys.executable, RESTORES, "150"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NO_OVERLAY:
        pytest.skip(f"not run: no root of its own here, {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    written = done.stdout.splitlines()
    assert len(written) > 1000
    above = {str(path) for path in (Path(RESTORES), *Path(RESTORES).parents)}
    assert {path for path in written if not path.startswith(f"{RESTORES}/")} <= above


def test_the_reader_forgets_what_it_has_read(tmp_path: Path) -> None:
    """A journal may have a million segments."""
    many = {f"state/journal/{n:020}-{n:010}-28bca452.segment": b"x" for n in range(300)}
    writer = Writer(tmp_path / "b", BackupHeader(FORMAT, "1", "gh", 5, has_secrets=False))
    for name, content in many.items():
        writer.add(name, content)
    writer.close()
    reader = Reader(tmp_path / "b")
    assert sum(len(part.read()) for part in reader.parts()) == 300
    assert len(reader._tar.members) <= 2  # type: ignore[attr-defined]
    reader.close()
