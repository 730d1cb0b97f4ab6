"""Keys as values, and the text of their file: whole or not at all, and no secret in an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.access.device_keys import EPOCH_MAX
from gateway.storage.keys.errors import KeyRefusedError, KeysError
from gateway.storage.keys.records import (
    KeyRecords,
    NewKey,
    StoredKey,
    check_secret,
    records_of,
    secret_of,
    sender_of,
    text_of,
)
from gateway.storage.keys.valid import ValidKeys

FIRST, SECOND, OTHER = b"first secret 016", b"second secret 16", b"other secret 016"


def records(*names: str) -> KeyRecords:
    new = [NewKey(name=name, secret=f"{name:s>16}".encode("utf-8", "replace")) for name in names]
    return KeyRecords().added(new, 100.0)


def test_a_device_is_added_once() -> None:
    found = records("tank")
    (key,) = found.of("tank")
    assert (key.client, key.epoch, key.created_s, key.until_s) == ("tank", 1, 100, None)
    with pytest.raises(KeyRefusedError, match="tank has a key: rotate or revoke"):
        found.added([NewKey(name="tank", secret=OTHER)], 100.0)


def test_while_rotated_two_keys_are_valid_and_the_newest_stays() -> None:
    found = records("tank").rotated("tank", SECOND, 200.0)
    assert [each.epoch for each in found.of("tank")] == [2, 1]
    with pytest.raises(KeyRefusedError, match="is being rotated"):
        found.rotated("tank", OTHER, 300.0)
    found = found.finished("tank")
    assert [each.secret for each in found.of("tank")] == [SECOND]
    with pytest.raises(KeyRefusedError, match="it has one key"):
        found.finished("tank")


def test_the_key_before_ends_at_its_time() -> None:
    now_s = [200.0]
    valid = ValidKeys(records("tank", "door").rotated("tank", SECOND, 200.0, 500), lambda: now_s[0])
    assert (len(valid), len(valid())) == (2, 2)
    assert [each.epoch for each in valid().of_name("tank")] == [2, 1]
    now_s[0] = 499.9
    assert len(valid().of_name("tank")) == 2
    now_s[0] = 500.0
    assert [each.epoch for each in valid().of_name("tank")] == [2]
    assert valid() is valid()


def test_one_that_has_ended_makes_room_for_the_next() -> None:
    found = records("tank").rotated("tank", SECOND, 200.0, 500).rotated("tank", OTHER, 600.0)
    assert [each.epoch for each in found.of("tank")] == [3, 2]
    assert len(found.without_over(700.0).of("tank")) == 2


def test_a_revoked_device_is_gone() -> None:
    found = records("tank", "door").revoked("tank")
    assert [each.name for each in found] == ["door"]
    with pytest.raises(KeyRefusedError, match="no device 'tank' has a key"):
        found.revoked("tank")


def test_no_two_devices_share_a_secret_or_a_sender() -> None:
    twice = [NewKey(name="a", secret=FIRST), NewKey(name="b", secret=FIRST)]
    with pytest.raises(KeyRefusedError, match="b has a key that a has"):
        KeyRecords().added(twice, 0.0)
    shared = [NewKey(name="a", secret=FIRST, sender_id=b"12345678")]
    shared.append(NewKey(name="b", secret=SECOND, sender_id=b"12345678"))
    with pytest.raises(KeyRefusedError, match="b has the sender id of a"):
        KeyRecords().added(shared, 0.0)
    two = [NewKey(name="a", secret=FIRST, client="x"), NewKey(name="a", secret=SECOND, epoch=2)]
    with pytest.raises(KeyRefusedError, match="two sender ids or client ids"):
        KeyRecords().added(two, 0.0)
    same = [NewKey(name="a", secret=FIRST), NewKey(name="a", secret=SECOND)]
    with pytest.raises(KeyRefusedError, match="epoch 1 twice"):
        KeyRecords().added(same, 0.0)
    three = [
        NewKey(name="a", secret=secret, epoch=epoch)
        for epoch, secret in ((1, FIRST), (2, SECOND), (3, OTHER))
    ]
    with pytest.raises(KeyRefusedError, match="more than 2 keys"):
        KeyRecords().added(three, 0.0)


def test_there_is_a_most_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.storage.keys.records.DEVICES_MAX", 1)
    with pytest.raises(KeyRefusedError, match="more than 1 devices"):
        records("a", "b")


def test_epochs_end() -> None:
    last = KeyRecords().added([NewKey(name="a", secret=FIRST, epoch=EPOCH_MAX)], 0.0)
    with pytest.raises(KeyRefusedError, match="revoke it and add it again"):
        last.rotated("a", SECOND, 0.0)
    with pytest.raises(KeyRefusedError, match="an epoch is"):
        KeyRecords().added([NewKey(name="a", secret=FIRST, epoch=EPOCH_MAX + 1)], 0.0)


@pytest.mark.parametrize("name", ["", "a" * 65, " a", "a\n", "\ud800"])
def test_names_can_be_shown(name: str) -> None:
    with pytest.raises(KeyRefusedError, match="1 to 64 bytes"):
        records(name)


@pytest.mark.parametrize("text", ["", "00", "zz" * 16, "0 " * 32, "ab" * 16, "01" * 65])
def test_a_secret_is_hexadecimal_and_long_enough(text: str) -> None:
    with pytest.raises(KeyRefusedError) as refused:
        secret_of(text)
    assert not text or text not in str(refused.value)
    with pytest.raises(KeyRefusedError):
        check_secret(b"0" * 16)


def test_a_sender_id_is_eight_bytes() -> None:
    assert sender_of("0001020304050607") == bytes(range(8))
    for text in ("", "00", "zz" * 8, "00 01 02 03 04 05 06 07"):
        with pytest.raises(KeyRefusedError, match="16 hexadecimal digits"):
            sender_of(text)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=16), st.binary(min_size=16, max_size=64))))
def test_the_text_is_read_back(devices: list[tuple[str, bytes]]) -> None:
    try:
        found = KeyRecords().added(
            [NewKey(name=name, secret=secret) for name, secret in devices], 7.0
        )
    except KeyRefusedError:
        return
    assert list(records_of(text_of(found))) == list(found)


def test_what_is_cut_off_or_changed_is_found() -> None:
    text = text_of(records("tank", "door").rotated("tank", SECOND, 200.0))
    for end in range(len(text) - 1):
        with pytest.raises(KeysError):
            records_of(text[:end])
    for at in range(len(text) - 1):
        damaged = bytes((*text[:at], text[at] ^ 1, *text[at + 1 :]))
        with pytest.raises(KeysError) as error:
            records_of(damaged)
        assert SECOND.hex()[:8] not in str(error.value)


def test_what_is_wrong_in_a_line_is_named_without_its_secret() -> None:
    good = StoredKey(
        name="a", client="a", sender_id=bytes(8), epoch=1, secret=FIRST, created_s=0, until_s=None
    )
    assert FIRST.decode() not in repr(good) + repr(NewKey(name="a", secret=FIRST))
    wrong: tuple[tuple[dict[str, object], str], ...] = (
        ({"name": 1}, "a text is missing"),
        ({"epoch": "1"}, "a number is missing"),
        ({"more": 1}, "its fields are others"),
        ({"secret": "0"}, "hexadecimal digits"),
        ({"sender": "0"}, "a sender id is"),
    )
    for changed, words in wrong:
        with pytest.raises(KeysError, match=f"line 2: .*{words}"):
            records_of(with_line(good, changed))
    with pytest.raises(KeysError, match="is not right: a has epoch 1 twice"):
        records_of(with_line(good, {}, good_too=True))


def with_line(key: StoredKey, changed: dict[str, object], *, good_too: bool = False) -> bytes:
    import json
    from hashlib import sha256

    lines = text_of(KeyRecords([key])).splitlines(keepends=True)[:-1]
    if good_too:
        lines.append(lines[1].replace(FIRST.hex().encode(), SECOND.hex().encode()))
    lines[1] = json.dumps(json.loads(lines[1]) | changed).encode() + b"\n"
    body = b"".join(lines)
    return body + json.dumps({"sha256": sha256(body).hexdigest()}).encode() + b"\n"


def test_other_files_and_later_formats_are_named() -> None:
    for text, words in (
        (b'{"format": "else"}\n', "is no file of keys"),
        (b'{"format": "tidegate.keys/2"}\n', "newer release"),
        (b'{"format": "tidegate.keys/1"}\n', "cut off after line 1"),
        (b" " * ((8 << 20) + 1), "more than 8 MiB"),
    ):
        with pytest.raises(KeysError, match=words):
            records_of(text)


def test_a_file_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.storage.keys.records.FILE_BYTES_MAX", 100)
    with pytest.raises(KeyRefusedError, match="the file would have more"):
        text_of(records("tank"))
