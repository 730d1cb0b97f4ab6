"""Archives of any kind, and what may come of a restore: their files where they belong, or nothing.

    python -m tests.storage.backup.any_archive FOLDER COUNT

restores so many of them, by seeds from 0 on, in this folder; for a root of its own.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import sys
import tarfile
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

from gateway.cli.restore import add_arguments, run
from gateway.storage.backup.archive import FORMAT, BackupHeader
from tests.storage.backup.test_guarded import snapshot_of
from tests.support.samples import named

CONFIG = b"""[gateway]
name = "gh"
state_dir = "state"
[upstream]
url = "mqtts://127.0.0.1:1"
username = "g"
password_file = "secrets/password"
ca_file = "ca.pem"
"""
SEGMENT = "state/journal/00000000000000000000-0000000001-28bca452.segment"
PARTS = {
    "config.toml": CONFIG,
    "files/upstream.ca_file": b"-----BEGIN CERTIFICATE-----",
    "files/upstream.password_file": b"tide",
    "state/state.db": bytes(4096),
    "state/announced.jsonl": b'["tidegate/gh/clients/a", "a", []]\n',
    "state/announced.values.jsonl": b'v"a"\t{}\n',
    SEGMENT: b"\0" * 5000,
}
MADE = {
    *("config.toml", "ca.pem", "secrets", "secrets/password", "state", "state/before-restore"),
    *("state/state.db", "state/announced.jsonl", "state/epoch", "state/lock", "state/journal"),
    "state/announced.values.jsonl",
    SEGMENT,
}
Members = list[tuple[tarfile.TarInfo, bytes]]


def head() -> bytes:
    told = BackupHeader(FORMAT, "1", "gh", int(time.time()) - 5, has_secrets=True)
    return json.dumps(asdict(told)).encode()


def members_of(parts: dict[str, bytes]) -> Members:
    everything = {"tidegate-backup.json": head(), **parts}  # head() has the time
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in everything.items()}
    everything["checksums.json"] = json.dumps(checksums).encode()
    return [(member(name), content) for name, content in everything.items()]


def member(name: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mode = 0o600
    return made


def archive(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for info, content in members:
            if info.isreg() or content:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def restored(folder: Path, path: Path, *more: str) -> int:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([str(path), "--config", str(folder / "config.toml"), *more]))


def made_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


NAMES = [
    *("config.toml", "state/state.db", SEGMENT, "state/announced.jsonl", "files/upstream.ca_file"),
    "state/announced.values.jsonl",
    *("../outside/witness", "/etc/x", "state/lock", "files/..", "STATE/state.db", "state/journal"),
    *("x" * 200, "state/journal/\u0661.segment", "tidegate-backup.json", "checksums.json", ""),
]
KINDS = [tarfile.REGTYPE] * 6 + [
    *(tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE),
    *(tarfile.DIRTYPE, b"9"),
    *(tarfile.GNUTYPE_SPARSE, tarfile.XGLTYPE, tarfile.CONTTYPE, tarfile.AREGTYPE),
]

ELSEWHERE = [
    "../outside/new",
    "{outside}/new",
    "secrets/../../outside/new",
    "/etc/../{outside}/new",
]
SIZES = [
    *(b"77777777777\0", b"00000000000\0", b"00000000001\0", b"00000002000\0", b"9 no octals\0"),
    *(b"\x80" + b"\xff" * 11, b"\xff" * 12, b"\xff" * 11 + b"\xfe", b"\x80" + bytes(10) + b"\1"),
    b" " * 12,
]
CHECKSUMS = [
    *(b"", b"{}", b"[]", b"null", b"NaN", b"[" * 3000, b"\xff\xfe"),
    *(b'{"config.toml": NaN}', b'{"a": "b"}'),
]


def disturb(members: Members, dice: Random) -> None:
    """One change; of some the archive is none the worse."""
    place = dice.randrange(len(members))
    info, content = members[place]
    match dice.randrange(9):
        case 0:
            info.name = dice.choice(NAMES)
        case 1:
            info.type = dice.choice(KINDS)
            info.linkname = dice.choice(["", "/etc/passwd", "config.toml", "../outside/witness"])
        case 2:
            info.mode = dice.choice([0, 0o600, 0o644, 0o777, 0o4755, 0o2644, 0o1777])
        case 3:
            info.uid, info.gid = dice.choice([(0, 0), (1, 0), (0, 65534), (1 << 20, 7)])
        case 4:
            info.uname, info.gname = dice.choice(
                [("root", "root"), ("nobody", "nogroup"), ("é", "")]
            )
        case 5:
            members[place] = (info, content[: dice.randrange(len(content) + 1)])
        case 6:
            members.insert(dice.randrange(len(members) + 1), members[place])
        case 7:
            del members[place]
        case _:
            info.pax_headers = dice.choice(
                [{"path": "../outside/x"}, {"GNU.sparse.size": "9"}, {"size": "3"}, {"uid": "7"}]
            )


def add_checksums(members: Members, dice: Random) -> None:
    """Of what there is now, or any."""
    found = [place for place, (info, _) in enumerate(members) if info.name == "checksums.json"]
    if not found:
        return
    stated = {
        info.name: hashlib.sha256(content).hexdigest()
        for place, (info, content) in enumerate(members)
        if place not in found
    }
    match dice.randrange(8):
        case 0:
            stated[dice.choice([*stated, "state/other"])] = dice.choice(["", "0" * 64, "x"])
        case 1:
            stated.pop(dice.choice([*stated]))
        case 2:
            stated = {name: each.upper() for name, each in stated.items()}
        case _:
            pass
    content = dice.choice(CHECKSUMS) if dice.random() < 0.1 else json.dumps(stated).encode()
    members[found[-1]] = (members[found[-1]][0], content)


def rewrite_a_head(path: Path, dice: Random) -> None:
    """Of one member: a size that it has not, or a kind, name or device, as nothing writes them."""
    content = gzip.decompress(path.read_bytes())
    heads = [at for at in range(0, len(content), 512) if content[at + 257 : at + 262] == b"ustar"]
    field, value = dice.choice(
        [
            *((124, size) for size in SIZES),
            *((156, bytes([kind])) for kind in b"\x001234567LKSVMDxg9"),
            *((157, link) for link in (b"/etc/passwd\0", b"../outside/witness\0")),
            *((0, name) for name in (b"/etc/x\0", b"../outside/witness\0", b"state/../../x\0")),
            *((345, prefix) for prefix in (b"/etc\0", b"..\0", b"state\0")),
            *((329, number) for number in (b"0000010\0", b"7777777\0", b"\xff" * 8)),
        ]
    )
    path.write_bytes(gzip.compress(head_rewritten(content, dice.choice(heads), field, value)))


def head_rewritten(content: bytes, at: int, field: int, value: bytes) -> bytes:
    """With the head's own checksum put right."""
    data = bytearray(content[at : at + 512])
    data[field : field + len(value)] = value
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return content[:at] + bytes(data) + content[at + 512 :]


def one_archive(folder: Path, dice: Random) -> int | None:
    (folder / "outside").mkdir()
    (folder / "outside" / "witness").write_text("here")
    place, path = folder / "site", folder / "b"
    place.mkdir()
    is_forced = dice.random() < 0.5
    parts = dict(PARTS)
    if not is_forced and dice.random() < 0.2:  # a path of the configuration's own
        elsewhere = dice.choice(ELSEWHERE).format(outside=folder / "outside")
        parts["config.toml"] = CONFIG.replace(b"ca.pem", elsewhere.encode())
    members = members_of(parts)
    for _ in range(dice.randrange(3)):
        disturb(members, dice)
    # Or most would be refused for their checksums alone. Not where another configuration, or none,
    # would say that the state is elsewhere, which it may.
    has_config = ("config.toml", parts["config.toml"]) in [(info.name, c) for info, c in members]
    if has_config and dice.random() < 0.5:
        add_checksums(members, dice)
    try:
        archive(path, members)
    except (ValueError, OverflowError, UnicodeError):
        return None  # tar cannot say it
    if dice.random() < 0.2:
        rewrite_a_head(path, dice)
    if dice.random() < 0.2:
        content = bytearray(path.read_bytes())
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
    before = snapshot_of(folder)
    code = restored(place, path, *(["--force"] if is_forced else []))
    if code:
        assert snapshot_of(folder) == before
    else:
        assert made_in(place) <= MADE
        assert {"state", "state/epoch"} <= made_in(place)
    assert made_in(folder / "outside") == {"witness"}
    assert (folder / "outside" / "witness").read_text() == "here"
    return code


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    for seed in range(count):
        (folder / str(seed)).mkdir(parents=True)
        with named(seed=seed):
            one_archive(folder / str(seed), Random(seed))


if __name__ == "__main__":
    main()
