"""`tidegate keys`: one device, many by a file, and no key where it was not asked for."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.cli.keys.table import new_keys
from gateway.storage.keys.errors import KeyRefusedError
from tests.cli.tidegate import tidegate_here

KEY = "00112233445566778899aabbccddeeff"
CONFIG = '[gateway]\nname = "g"\nstate_dir = "state"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.toml").write_text(CONFIG)
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "key").chmod(0o600)
    return tmp_path


def keys(folder: Path, *arguments: str, code: int = ExitCode.OK) -> str:
    done = tidegate_here("keys", *arguments, "--config", "c.toml", folder=folder)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_device_from_its_first_key_to_none(folder: Path) -> None:
    assert "no device has a key" in keys(folder, "list")
    added = keys(folder, "add", "tank", "--client", "tank-1", "--key-file", "key")
    assert "tank has a key" in added
    assert "reload" in added
    assert "tank has a key: rotate" in keys(folder, "add", "tank", code=ExitCode.FAILURE)
    assert re.search(rf"client  tank-1\n.*\nepoch   1\nkey     {KEY}", keys(folder, "show", "tank"))
    rotated = keys(folder, "rotate", "tank", "--for", "7d")
    assert re.search(r"valid until 2\d\d\d-", rotated)
    shown = json.loads(keys(folder, "show", "tank", "--json"))["keys"]
    assert [each["epoch"] for each in shown] == [2, 1]
    assert shown[1]["key"] == KEY != shown[0]["key"]
    listed = keys(folder, "list") + keys(folder, "list", "--json")
    for each in shown:
        assert each["key"] not in added + rotated + listed
    assert "its newest key alone" in keys(folder, "rotate", "tank", "--finish")
    assert len(json.loads(keys(folder, "list", "--json"))["keys"]) == 1
    assert "tank has no key any more" in keys(folder, "revoke", "tank")
    assert "no device 'tank'" in keys(folder, "show", "tank", code=ExitCode.FAILURE)
    assert "no device 'tank'" in keys(folder, "export", "tank", code=ExitCode.FAILURE)


def test_answers_in_json_have_no_key(folder: Path) -> None:
    answer = keys(folder, "add", "tank", "--key-file", "key", "--json")
    assert json.loads(answer)["schema"] == "tidegate.keys/1"
    assert json.loads(answer)["keys"][0]["sender"] == "281a37477f772e78"
    assert KEY not in answer
    json.loads(keys(folder, "rotate", "tank", "--json"))
    assert "takes neither" in keys(
        folder, "rotate", "tank", "--finish", "--for", "1h", code=ExitCode.FAILURE
    )
    assert "valid until tidegate keys rotate" not in keys(folder, "revoke", "tank", "--json")


def test_a_key_file_that_others_may_read_is_refused(folder: Path) -> None:
    (folder / "key").chmod(0o644)
    said = keys(folder, "add", "tank", "--key-file", "key", code=ExitCode.PERMISSION)
    assert "chmod 600 key" in said
    assert "cannot be read" in keys(
        folder, "add", "tank", "--key-file", "none", code=ExitCode.PERMISSION
    )
    (folder / "key").chmod(0o600)
    (folder / "key").write_text("no key")
    said = keys(folder, "add", "tank", "--key-file", "key", code=ExitCode.FAILURE)
    assert "32 to 128 hexadecimal digits" in said
    assert "no key" not in said
    (folder / "key").write_bytes(b"\xff")
    assert "is no text" in keys(
        folder, "add", "tank", "--key-file", "key", code=ExitCode.PERMISSION
    )


def test_what_is_exported_is_imported(folder: Path) -> None:
    keys(folder, "add", "tank", "--key-file", "key")
    keys(folder, "rotate", "tank")
    keys(folder, "add", "door")
    assert "keys of 2 devices" in keys(folder, "export", "--output", "all.csv")
    assert stat.S_IMODE((folder / "all.csv").stat().st_mode) == 0o600
    keys(folder, "export", "--output", "all.csv", code=ExitCode.CANNOT_CREATE)
    before = keys(folder, "export")
    assert keys(folder, "export", "tank").count(",tank,") == 2
    (folder / "state" / "device.keys").unlink()
    assert "2 devices have keys now" in keys(folder, "import", "all.csv")
    assert keys(folder, "export") == before
    assert "nothing was changed: door has a key" in keys(
        folder, "import", "all.csv", code=ExitCode.FAILURE
    )


def test_all_lines_are_checked_before_any_counts(folder: Path) -> None:
    (folder / "new.csv").write_text(
        f"name,key,epoch\nfine,,\n,,\na,{KEY},1\nb,{KEY},\nc,zz,\nfine,,\nd,,x\ne,,,\n"
    )
    (folder / "new.csv").chmod(0o600)
    said = keys(folder, "import", "new.csv", code=ExitCode.FAILURE)
    for line in (
        "nothing was changed",
        "new.csv:3: a name has 1 to 64 bytes",
        "new.csv:5: the key is that of line 4",
        "new.csv:6: a key is 32 to 128 hexadecimal digits",
        "new.csv:7: fine is in line 2 as well",
        "new.csv:8: epoch is a whole number",
        "new.csv:9: it has more or fewer columns",
    ):
        assert line in said
    assert KEY not in said
    assert not (folder / "state" / "device.keys").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a head of columns is expected"),
        ("client\n", "a head of columns is expected"),
        ("name,colour\n", "a head of columns is expected"),
        ("name,name\n", "a head of columns is expected"),
        ('"name\n', "x.csv:1: unexpected end of data"),
        ('name\n"a\n', "unexpected end of data"),
        ("name,sender\na,0001020304050607\nb,0001020304050607\n", "x.csv:3: the sender id is that"),
        ("name,client\na,\tb\x00\n", "x.csv:2: a client id"),
        ("name\n" + "\t\n" * 30, "and 10 more lines"),
    ],
)
def test_a_table_that_is_wrong_is_named_by_line(text: str, words: str) -> None:
    with pytest.raises(KeyRefusedError, match=re.escape(words)):
        new_keys(text, "x.csv")


def test_ten_thousand_devices_at_once() -> None:
    made = new_keys("name\n" + "".join(f"n{number}\n" for number in range(10_000)), "x.csv")
    assert len({each.secret for each in made}) == 10_000


def test_a_code_for_who_programs_the_device(folder: Path) -> None:
    keys(folder, "add", "tank", "--key-file", "key")
    segno = pytest.importorskip("segno")
    assert segno
    from gateway.cli.keys.qr import code_of
    from gateway.cli.keys.qr import text_of as told

    assert "█" in keys(folder, "show", "tank", "--qr")
    assert code_of("x") is not None
    from gateway.storage.keys.file import read_keys

    (key,) = read_keys(folder / "state" / "device.keys")[0]
    assert told(key) == (
        f"tidegate:key/1?name=tank&client=tank&sender=281a37477f772e78&epoch=1&key={KEY}"
    )


def test_without_what_makes_codes_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(folder, "add", "tank")
    monkeypatch.setitem(__import__("sys").modules, "segno", None)
    said = keys(folder, "show", "tank", "--qr", code=ExitCode.UNAVAILABLE)
    assert "install it with" in said
    assert "segno" in said


@pytest.mark.parametrize("text", ["0d", "7", "7w", "x", "-1d"])
def test_a_time_has_a_unit(folder: Path, text: str) -> None:
    keys(folder, "rotate", "tank", f"--for={text}", code=ExitCode.USAGE)


def test_a_damaged_file_is_told_and_kept(folder: Path) -> None:
    (folder / "state" / "device.keys").write_text("x")
    (folder / "state" / "device.keys").chmod(0o600)
    assert "is damaged: line 1" in keys(folder, "list", code=ExitCode.FAILURE)
    assert "is damaged: line 1" in keys(folder, "add", "tank", code=ExitCode.FAILURE)
