"""What is allowed but probably not meant is a warning, and no reason to stop."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gateway.config.gathering import Gathering
from gateway.config.mounts import free_bytes, taken_bytes
from gateway.config.settings import GatewaySettings, Settings
from gateway.config.warnings import find_warnings
from tests.config.reading import read

# A file system in memory that every Linux has; nothing is made there.
IN_MEMORY = Path("/dev/shm/tidegate")
MEMORY_WARNING = (
    f"gateway.state_dir: {IN_MEMORY} is in memory (tmpfs): what is kept there will not survive a "
    "power cut"
)


def test_a_state_folder_in_memory_is_warned_about() -> None:
    assert read(
        f'gateway.state_dir = "{IN_MEMORY}/deep/down"\njournal.size_max = "1MiB"'
    ).warnings == (
        f"c.toml:1:21: {MEMORY_WARNING}".replace(str(IN_MEMORY), f"{IN_MEMORY}/deep/down"),
    )


def test_two_names_of_one_port_are_warned_about(folder: Path) -> None:
    (device := folder / "ttyUSB0").touch()
    (name := folder / "usb-board-if00").symlink_to(device)
    state = f'gateway.state_dir = "{folder}"\njournal.size_max = "512KiB"\n'
    both = f'[[serial]]\nport = "{device}"\n[[serial]]\nport = "{name}"\n'
    server = '[[serial]]\nport = "socket://10.0.0.5:4001"\n'
    (warning,) = read(state + server + both).warnings
    assert warning.startswith("c.toml:8:8: serial.2.port: ")
    told = "is the same device as serial.1.port now: only one of the two can have it"
    assert warning.endswith(told)
    name.unlink()
    assert read(state + server + both).warnings == ()


def test_a_journal_larger_than_its_disk_is_warned_about(folder: Path) -> None:
    room = free_bytes(IN_MEMORY)
    assert room is not None
    text = f'gateway.state_dir = "{IN_MEMORY}"\n[journal]\nsize_max = "1024GiB"\n'
    _, warning = read(text).warnings
    assert warning.startswith("c.toml:3:12: journal.size_max: 1024GiB is more than the ")
    assert warning.endswith(
        f"MiB that {IN_MEMORY} has room for; once the disk is full, readings are refused while the "
        "broker is away"
    )
    assert read(f'gateway.state_dir = "{folder}"\njournal.size_max = "512KiB"').warnings == ()


def test_what_the_journal_takes_already_counts_as_room(folder: Path) -> None:
    with TemporaryDirectory(dir=IN_MEMORY.parent) as state:
        journal = Path(state) / "journal"
        journal.mkdir()
        (journal / "segment").write_bytes(bytes(8 * 2**20))
        assert taken_bytes(journal) == 8 * 2**20
        free = free_bytes(journal)
        assert free is not None
        text = f'gateway.state_dir = "{state}"\njournal.size_max = {free + 4 * 2**20}'
        assert [line for line in read(text).warnings if "journal.size_max" in line] == []
    assert taken_bytes(journal) == 0


def test_a_journal_that_nothing_is_written_to_needs_no_room() -> None:
    text = 'acknowledge = "upstream"\nsize_max = "1024GiB"\n'
    environment = {"TIDEGATE_GATEWAY__STATE_DIR": str(IN_MEMORY)}
    (warning,) = read(f"[journal]\n{text}", environment).warnings
    assert warning == f"environment TIDEGATE_GATEWAY__STATE_DIR: {MEMORY_WARNING}"
    for stored in ("qos0_offline", "qos0"):
        assert len(read(f'[journal]\n{text}{stored} = "store"\n', environment).warnings) == 2
    topic = '[[topic]]\nfilter = "alarm/#"\nacknowledge = "journal"\n'
    assert len(read(f"[journal]\n{text}{topic}", environment).warnings) == 2


def test_a_default_that_does_not_fit_is_named_as_the_default() -> None:
    gathering = Gathering()
    settings = replace(Settings(), gateway=GatewaySettings(state_dir=IN_MEMORY))
    assert next(iter(find_warnings(settings, gathering))) == f"default: {MEMORY_WARNING}"


def test_a_filter_that_never_decides_is_warned_about() -> None:
    filters = ("alarm/#", "+/door", "alarm/door", "a/door", "+/door", "x/+/y")
    text = "".join(f'[[topic]]\nfilter = "{one}"\nqos0 = "store"\n' for one in filters)
    assert read(text).warnings == (
        'c.toml:8:10: topic.2.filter: never decides, because topic.0.filter "alarm/#" comes first',
        'c.toml:11:10: topic.3.filter: never decides, because topic.1.filter "+/door" comes first',
        'c.toml:14:10: topic.4.filter: never decides, because topic.1.filter "+/door" comes first',
    )


def test_a_file_that_is_not_there_is_only_doubted_because_it_may_come() -> None:
    text = '[upstream]\nusername = "me"\npassword_file = "secret"\n'
    assert read(text).warnings == (
        "c.toml:3:17: upstream.password_file: secret cannot be read now: No such file or directory",
    )


def test_a_password_that_everybody_can_read_is_warned_about(folder: Path) -> None:
    text = '[upstream]\nusername = "me"\npassword_file = "secret"\n'
    secret = folder / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    assert read(text).warnings == (
        "c.toml:3:17: upstream.password_file: secret can be read by everybody on this machine: "
        "sudo chmod o-r secret",
    )
    secret.chmod(0o640)
    assert read(text).warnings == ()


def test_certificates_may_be_readable_to_everybody(folder: Path) -> None:
    (folder / "ca.pem").touch(0o644)
    assert read('[upstream]\nurl = "mqtts://b"\nca_file = "ca.pem"\n').warnings == ()


def test_a_prefix_without_a_slash_is_warned_about() -> None:
    assert read('upstream.topic_prefix = "site"').warnings == (
        "c.toml:1:25: upstream.topic_prefix: has no slash at its end: topics become "
        '"sitesensors/boot"',
    )
    assert read('upstream.topic_prefix = "site/"').warnings == ()


def test_an_interface_that_is_not_there_now_is_warned_about() -> None:
    group = 'multicast = "225.1.1.1:1883"\n'
    (warning,) = read(f'[[udp]]\n{group}multicast_interface = "wlan77"\n').warnings
    assert warning.startswith(
        'c.toml:3:23: udp.0.multicast_interface: this machine has no interface "wlan77" now, but '
    )
    for there in ("lo", "192.0.2.7"):
        assert read(f'[[udp]]\n{group}multicast_interface = "{there}"\n').warnings == ()


def test_a_zone_that_is_not_there_now_is_warned_about() -> None:
    (warning,) = read('upstream.url = "mqtt://[fe80::1%25wlan77]"\n').warnings
    assert warning.startswith(
        'c.toml:1:16: upstream.url: this machine has no interface "wlan77" now, but '
    )
    for there in ("lo", "1"):
        assert read(f'upstream.url = "mqtt://[fe80::1%25{there}]"\n').warnings == ()


def test_a_binding_that_fits_no_sensor_is_warned_about() -> None:
    text = """
    [[udp]]
    [[serial]]
    port = "/dev/ttyS9"
    [mqtt_sn]
    client_id_bytes_max = 8
    [[binding]]
    identities = ["{identities}"]
    clients = ["{clients}"]
    """

    def warned(identities: str, clients: str = "tank", security: Any = "none") -> list[str]:
        given = text.replace("{identities}", identities).replace("{clients}", clients)
        settings = read(given).settings
        udp = replace(settings.udp[0], security=security)
        found = find_warnings(replace(settings, udp=(udp,)), Gathering())
        return [each.partition(": ")[2] for each in found if "binding" in each]

    for each in ("anonymous@udp0", "serial:*", "forwarder:udp0/07", "forwarder:serial0/*", "*"):
        assert warned(each) == [], each
    for each in ("anonymous@udp1", "psk:*", "serial:serial1", "sender:0123456789abcdef", "udp0"):
        assert warned(each) == [
            f'binding.0.identities: "{each}" is the identity of no sensor of any listener'
        ]
    for security, own in (("protected", "sender:*"), ("dtls-psk", "psk:a"), ("dtls-cert", "c*")):
        assert warned(own, security=security) == []
        assert len(warned("anonymous@*", security=security)) == 1
    assert warned("sender:0123456789abcdef", security="protected") == []
    assert len(warned("sender:0123456789ABCDEF", security="protected")) == 1
    assert warned("*", "*12345678{identity}") == []
    (warning,) = warned("*", "*123456789{identity}")
    assert warning == (
        'binding.0.clients: "*123456789{identity}" fits no sensor, see '
        "mqtt_sn.client_id_bytes_max (8)"
    )
