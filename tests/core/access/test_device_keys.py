"""Keys of devices: by name and by sender, the newest first, and no secret in a text."""

from __future__ import annotations

from gateway.core.access.device_keys import DeviceKey, DeviceKeys, sender_id_of


def a_key(name: str, epoch: int, secret: bytes = b"s" * 16) -> DeviceKey:
    return DeviceKey(name, epoch, sender_id_of(name), secret)


def test_the_newest_comes_first_and_an_unknown_device_has_none() -> None:
    first, second, other = a_key("tank", 1), a_key("tank", 2), a_key("door", 7)
    keys = DeviceKeys([first, other, second])
    assert len(keys) == 2
    assert keys.of_name("tank") == (second, first)
    assert keys.of_sender(sender_id_of("door")) == (other,)
    assert keys.of_name("shed") == ()
    assert keys.of_sender(b"12345678") == ()
    assert len(DeviceKeys()) == 0


def test_a_secret_is_in_no_text() -> None:
    key = a_key("tank", 1, b"a secret of ours")
    assert "secret of ours" not in f"{key} {key!r} {DeviceKeys([key])!r}"


def test_sender_ids_of_names_differ() -> None:
    assert len({sender_id_of(f"node-{number}") for number in range(10_000)}) == 10_000
