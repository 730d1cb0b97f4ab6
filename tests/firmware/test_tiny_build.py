"""What is made of the small sensor for boards, and which settings are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firmware.tiny import build

REPOSITORY = Path(build.__file__).resolve().parents[2]


def unpacked(octets: bytes) -> list[str]:
    found, at = [], 0
    while size := int(octets[at : at + 4]):
        found.append(octets[at + 4 : at + 4 + size].decode())
        at += 4 + size
    assert octets[at:] == b"0000"
    return found


def made(folder: Path, settings: object) -> subprocess.CompletedProcess[str]:
    (folder / "settings").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "firmware.tiny.build", "--into", str(folder / "made")]
    command += ["--settings", str(folder / "settings")]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_parts_are_whole_statements_and_small(tmp_path: Path) -> None:
    parts = unpacked(build.packed({}))
    for part in parts:
        compile(part, "part", "exec")
        assert len(part) <= build.PART_OCTETS_MAX or part.count("\ndef ") == 0
    assert max(map(len, parts)) < 800


def test_settings_go_into_the_first_part() -> None:
    first = unpacked(build.packed({"CLIENT_ID": "greenhouse-3", "INTERVAL_S": 7}))[0]
    assert "b'greenhouse-3'" in first
    assert " = 7\n" in first


def test_no_name_that_the_loader_needs_is_given_to_something_else() -> None:
    text = "".join(unpacked(build.packed({})))
    for name in ("exec", "int", "open", "str", "bytes", "range", "print"):
        assert f"def {name}(" not in text
        assert f"\n{name} = " not in text


def test_the_script_says_where_its_parts_are() -> None:
    parts = build.packed({})
    script = build.script(parts)
    size = int.from_bytes(script[2:4], "little")
    loader = script[4 : 4 + size].decode()
    (at,) = (line for line in loader.splitlines() if line.strip().startswith("at = "))
    assert int(at.split("=")[1]) == build.SCRIPT_AT + 4 + size
    assert script[4 + size :] == parts
    assert len(script) <= build.SCRIPT_OCTETS_MAX


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"CLIENTID": "x"}, "no setting CLIENTID; there are CLIENT_ID, TOPIC,"),
        ({"INTERVAL_S": "soon"}, "INTERVAL_S: expected something like 60, got 'soon'"),
        ({"TOPIC": "t" * 41}, "TOPIC: 41 bytes, at most 40"),
        ({"RETRIES": 1}, "no setting RETRIES"),
    ],
)
def test_settings_that_cannot_be_are_a_message(
    tmp_path: Path, settings: object, message: str
) -> None:
    ended = made(tmp_path, settings)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"not built: {message}")
    assert "Traceback" not in ended.stderr


def test_the_command_says_what_it_made(tmp_path: Path) -> None:
    ended = made(tmp_path, {"SENSOR": "pin0"})
    assert ended.returncode == 0, ended.stderr
    names = {line.split()[1].rpartition("/")[2] for line in ended.stdout.splitlines()}
    assert names == {"main.py", "tiny", "script.bin"}
