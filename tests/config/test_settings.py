"""What comes out: values of the promised types, units and defaults."""

import os
import types
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest

from gateway.config import HostPort, Settings, load
from gateway.config.addresses import ZONE_EXPECTED, Broker, BrokerUrl
from gateway.config.keys import ROOT
from gateway.config.kinds import Text, Texts
from gateway.config.schema import Key, Named, Repeated, Table, default_of
from gateway.config.settings import (
    AdminSettings,
    GatewaySettings,
    JournalSettings,
    LimitsSettings,
    MqttSnSettings,
    ProtectionSettings,
    TopicSettings,
    UdpSettings,
    UpstreamSettings,
    host_name,
)
from gateway.config.template import template
from tests.config.reading import complaints, read
from tests.support.samples import for_each


def tables() -> list[Table]:
    found = [part for part in ROOT.parts if isinstance(part, Table)]
    return found + [part.entry for part in ROOT.parts if isinstance(part, Repeated)]


def uncommented() -> str:
    lines = template().split("\n")
    return "\n".join(line[1:] if line[:1] == "#" and line[1:2] > " " else line for line in lines)


def test_an_empty_file_gives_the_defaults_of_the_classes() -> None:
    assert read("").settings == Settings()


def test_the_defaults_are_those_that_were_promised() -> None:
    settings = read("").settings
    assert settings.gateway == GatewaySettings(
        id=1, name=host_name(), state_dir=Path("/var/lib/tidegate")
    )
    assert settings.udp == (
        UdpSettings(
            listen=HostPort("0.0.0.0", 1883), receive_buffer_bytes=4 * 2**20, tick_ms_max=3.0
        ),
    )
    assert settings.upstream == UpstreamSettings(
        host="127.0.0.1",
        port=1883,
        tls=False,
        client_id=f"tidegate-{host_name()}",
        trust="connection",
        keep_alive_s=30,
        session_expiry_s=604800,
        will_delay_s=10,
        connect_timeout_s=10,
        reconnect_delay_s_min=0.5,
        reconnect_delay_s_max=30,
        waiting_messages_max=100_000,
        waiting_bytes_max=64 * 2**20,
    )


def test_the_defaults_for_sensors_are_those_that_were_promised() -> None:
    settings = read("").settings
    assert settings.mqtt_sn == MqttSnSettings(
        retry_after_s=10, retry_count_max=4, client_id_bytes_max=64, allow_trailing_octets=True
    )
    assert settings.limits == LimitsSettings(
        clients_max=10_000,
        topics_per_client_max=256,
        subscriptions_per_client_max=64,
        outbox_messages_max=1000,
        outbox_bytes_max=256 * 2**10,
        payload_bytes_max=1024,
        retained_messages_max=10_000,
        retained_bytes_max=16 * 2**20,
        topic_bytes_max=512,
        disconnects_per_s_max=20,
    )
    assert settings.admin == AdminSettings(listen=HostPort("127.0.0.1", 8080))
    assert not settings.qos_minus_one.allow
    assert not settings.qos_minus_one.long_topics


def test_the_defaults_for_the_journal_are_those_that_were_promised() -> None:
    settings = read("").settings
    assert settings.journal == JournalSettings(
        acknowledge="auto",
        size_max_bytes=512 * 2**20,
        when_full="reject",
        spill_after_ms=50,
        linger_ms=2,
        message_expiry_s=0,
        coalesce_retained=False,
        qos0="forward",
        qos0_offline="drop",
    )
    assert settings.topic == ()
    assert settings.gateway.journal_dir == Path("/var/lib/tidegate/journal")


@pytest.mark.parametrize("word", ["auto", "journal", "upstream"])
def test_every_way_to_acknowledge_may_be_chosen(word: str) -> None:
    assert read(f'journal.acknowledge = "{word}"').settings.journal.acknowledge == word
    assert read("", {"TIDEGATE_JOURNAL__ACKNOWLEDGE": word}).settings.journal.acknowledge == word


def test_topics_keep_their_order_and_say_only_what_was_said() -> None:
    text = (
        '[[topic]]\nfilter = "alarm/#"\nacknowledge = "journal"\nmessage_expiry_s = 60\n'
        '[[topic]]\nfilter = "#"\ncoalesce_retained = true\nqos0 = "store"\n'
        '[[topic]]\nfilter = "cmd/#"\ndeliver_within_s = 3600\n'
    )
    assert read(
        text, overrides=["topic.3.filter=a", "topic.3.qos0_offline=store"]
    ).settings.topic == (
        TopicSettings(filter="alarm/#", acknowledge="journal", message_expiry_s=60),
        TopicSettings(filter="#", coalesce_retained=True, qos0="store"),
        TopicSettings(filter="cmd/#", deliver_within_s=3600),
        TopicSettings(filter="a", qos0_offline="store"),
    )


def test_topics_may_come_from_variables_alone() -> None:
    environment = {"TIDEGATE_TOPIC__0__FILTER": "a/+", "TIDEGATE_TOPIC__0__QOS0": "store"}
    assert read("", environment).settings.topic == (TopicSettings(filter="a/+", qos0="store"),)
    (line,) = complaints("", {"TIDEGATE_TOPIC__1__FILTER": "a/+"})
    assert line.endswith(' topic: expected a number up to 0 after topic, got "1"')


def test_of_topics_there_are_256_at_most() -> None:
    text = "".join(f'[[topic]]\nfilter = "{one}"\nqos0 = "store"\n' for one in range(257))
    assert complaints(text) == ["c.toml:769:3: topic: expected at most 256 of them"]


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_every_setting_has_its_key_and_every_key_its_setting(table: Table) -> None:
    assert table.settings is not None
    filled = [name for key in table.keys for name in key.filled]
    assert filled == [setting.name for setting in fields(table.settings)]


def test_every_table_has_its_setting() -> None:
    named = {part.name for part in ROOT.parts if isinstance(part, Table | Repeated | Named)}
    assert named == {setting.name for setting in fields(Settings)}


@for_each(
    "key",
    [(table, key) for table in tables() for key in table.keys],
    shown=lambda both: f"{both[0].name}.{both[1].name}",
)
def test_every_default_is_a_value_that_its_key_would_take(both: tuple[Table, Key]) -> None:
    table, key = both
    default = default_of(table, key)
    written = key.kind.written(default)
    if default is not None and written is not None:
        text = written.removeprefix('"').removesuffix('"')
        assert key.kind.read(key.kind.from_text(text)) == default


def check_types(value: object, declared: Any) -> None:
    """mypy cannot see what the reader puts into the settings, so this looks."""
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin is Literal:
        assert value in inner
    elif origin in (typing.Union, types.UnionType):
        assert any(matches(value, one) for one in inner)
    elif origin is tuple:
        assert isinstance(value, tuple)
        for one in value:
            check_types(one, inner[0])
    elif inner:
        assert isinstance(value, dict)
        for name, one in value.items():
            check_types(name, inner[0])
            check_types(one, inner[1])
    elif is_dataclass(declared):
        assert type(value) is declared
        for name, hint in typing.get_type_hints(declared).items():
            check_types(getattr(value, name), hint)
    else:
        assert isinstance(value, declared)
        assert isinstance(value, bool) == (declared is bool)


def matches(value: object, declared: Any) -> bool:
    try:
        check_types(value, declared)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("text", ["", uncommented()], ids=["defaults", "everything set"])
def test_every_value_has_the_type_that_its_setting_declares(text: str) -> None:
    check_types(read(text).settings, Settings)


def test_the_table_of_protected_packets_is_read() -> None:
    text = '[protection]\nrequired = true\nschemes = ["aes-ccm-64"]\ntag_bits_min = 128\n'
    found = read(text).settings.protection
    assert found == ProtectionSettings(required=True, schemes=("aes-ccm-64",), tag_bits_min=128)


def test_no_table_of_a_file_is_left_out() -> None:
    with patch("gateway.config.reader.Settings", wraps=Settings) as made:
        read()
    assert set(made.call_args.kwargs) == {each.name for each in fields(Settings)}


def test_the_url_decides_three_settings() -> None:
    upstream = read('[upstream]\nurl = "mqtts://broker.example.org"\n').settings.upstream
    assert (upstream.host, upstream.port, upstream.tls) == ("broker.example.org", 8883, True)


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("mqtt://broker", "broker", 1883, False),
        ("mqtt://broker/", "broker", 1883, False),
        ("mqtt://broker:99", "broker", 99, False),
        ("mqtts://10.0.0.5:1", "10.0.0.5", 1, True),
        ("mqtt://[::1]", "::1", 1883, False),
        ("mqtts://[FE80::1]:9", "fe80::1", 9, True),
        ("mqtt://my_broker.local.", "my_broker.local.", 1883, False),
        ("mqtt://[fe80::1%25lo]:1883", "fe80::1%lo", 1883, False),
        ("mqtt://[FE80::1%lo]", "fe80::1%lo", 1883, False),
        ("mqtts://[fe80::1%25eth0.5]:1", "fe80::1%eth0.5", 1, True),
        ("mqtt://[fe80::1%25%65th0]:1", "fe80::1%eth0", 1, False),
        ("mqtt://[fe80::1%252]:1", "fe80::1%2", 1, False),
        ("mqtt://[fe80::1%2]:1", "fe80::1%2", 1, False),
    ],
)
def test_a_broker_is_a_name_or_an_address(url: str, host: str, port: int, tls: bool) -> None:
    upstream = read(f'[upstream]\nurl = "{url}"\n').settings.upstream
    assert (upstream.host, upstream.port, upstream.tls) == (host, port, tls)
    again = BrokerUrl().read(str(Broker(host, port, tls)))
    assert again == (host, port, tls)


@pytest.mark.parametrize(
    "host",
    ["[fe80::1%]", "[fe80::1%25]", "[fe80::1%25eth0%25]", "[fe80::1%25eth/0]", "[fe80::1%25a b]",
     "[fe80::1%25a-name-that-is-long]", "[fe80::1%25..]", "[fe80::1%25eth%2f0]", "fe80::1%25eth0",
     "[%25eth0]", "[10.0.0.5%25eth0]", "10.0.0.5%eth0", "broker%25eth0"],
)  # fmt: skip
def test_a_zone_of_another_form_is_refused_with_one_that_is_right(host: str) -> None:
    (complaint,) = complaints(f'[upstream]\nurl = "mqtt://{host}:1883"\n')
    assert f'upstream.url: expected {ZONE_EXPECTED}, got "mqtt://{host}:1883"' in complaint


@pytest.mark.parametrize(
    "host", ["", "a..b", "-a", "a-", "a b", "10.0.0", "1", "[::1", "[10.0.0.1]", "::1", "x" * 64]
)
def test_what_can_be_no_host_is_refused(host: str) -> None:
    assert complaints(f'[upstream]\nurl = "mqtt://{host}:1883"\n')


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("65536", 65536),
        ('"65536B"', 65536),
        ('"64KiB"', 65536),
        ('"64 KiB"', 65536),
        ('"1MiB"', 2**20),
        ('"1GiB"', 2**30),
    ],
)
def test_a_size_may_have_a_unit(text: str, octets: int) -> None:
    assert read(f"[limits]\noutbox_bytes_max = {text}\n").settings.limits.outbox_bytes_max == octets


@pytest.mark.parametrize("text", ['"1.5MiB"', '"64kib"', '"64K"', '"KiB"', '"0x10"', '" 1KiB"'])
def test_a_size_of_another_form_is_refused(text: str) -> None:
    assert complaints(f"[limits]\noutbox_bytes_max = {text}\n")


def test_both_ends_of_a_range_belong_to_it() -> None:
    for number in (0, 255):
        assert read(f"[gateway]\nid = {number}\n").settings.gateway.id == number
    for number in (-1, 256):
        assert complaints(f"[gateway]\nid = {number}\n")


def test_the_shortest_and_the_longest_delay_may_be_the_same() -> None:
    text = "[upstream]\nreconnect_delay_s_min = 7\nreconnect_delay_s_max = 7\n"
    assert read(text).settings.upstream.reconnect_delay_s_max == 7


def test_the_will_waits_as_long_as_the_session_at_most_if_that_was_asked_for() -> None:
    text = "[upstream]\nsession_expiry_s = 5\n"
    assert read(text).settings.upstream.will_delay_s == 10  # the session ends before it
    assert read(text + "will_delay_s = 5\n").settings.upstream.will_delay_s == 5
    assert complaints(text + "will_delay_s = 6\n")


@pytest.mark.parametrize("code", ["0000", "001F", "007F", "0080", "009F"])
def test_control_characters_are_no_text(code: str) -> None:
    assert complaints(f'[upstream]\nusername = "a\\u{code}"\n')


def test_text_may_hold_everything_else() -> None:
    text = "~ \N{NO-BREAK SPACE}\N{LATIN SMALL LETTER E WITH ACUTE}\N{SNOWMAN}#+/"
    assert read(f'[upstream]\nusername = "{text}"\n').settings.upstream.username == text


def test_a_number_of_seconds_may_be_written_without_a_fraction() -> None:
    retry = read("[mqtt_sn]\nretry_after_s = 12\n").settings.mqtt_sn.retry_after_s
    assert (retry, type(retry)) == (12.0, float)


def test_the_client_id_follows_the_name_unless_it_is_set() -> None:
    assert read('gateway.name = "roof"').settings.upstream.client_id == "tidegate-roof"
    text = 'gateway.name = "roof"\nupstream.client_id = "x"\n'
    assert read(text).settings.upstream.client_id == "x"


def test_a_relative_path_begins_at_the_folder_of_the_file(folder: Path) -> None:
    (folder / "etc").mkdir()
    file = folder / "etc" / "c.toml"
    file.write_text(
        'gateway.state_dir = "state"\nupstream.ca_file = "/ca"\nupstream.url = "mqtts://b"'
    )
    settings = load(file, environment={}, overrides=["upstream.cert_file=here.pem"]).settings
    assert settings.gateway.state_dir == folder / "etc" / "state"
    assert settings.upstream.ca_file == Path("/ca")
    assert settings.upstream.cert_file == Path("here.pem")


def test_ports_of_0_may_repeat_since_each_is_another_one() -> None:
    text = '[[udp]]\nlisten = "127.0.0.1:0"\n[[udp]]\nlisten = "127.0.0.1:0"\n'
    assert len(read(text).settings.udp) == 2


def test_the_same_port_may_be_open_for_both_kinds_of_address() -> None:
    text = '[[udp]]\nlisten = "0.0.0.0:1883"\n[[udp]]\nlisten = "[::]:1883"\n'
    assert [str(listener.listen) for listener in read(text).settings.udp] == [
        "0.0.0.0:1883",
        "[::]:1883",
    ]


def test_topics_of_all_and_of_one_sensor_stand_side_by_side() -> None:
    settings = read(
        '[predefined_topics]\n"sensors/boot" = 1\n'
        '[clients."pump 7".predefined_topics]\n"pump/7" = 2\n"sensors/boot" = 1\n'
        '[clients."pump 8".predefined_topics]\n"pump/8" = 2\n'
    ).settings
    assert settings.predefined_topics == {"sensors/boot": 1}
    assert settings.clients["pump 7"].predefined_topics == {"pump/7": 2, "sensors/boot": 1}
    assert settings.clients["pump 8"].predefined_topics == {"pump/8": 2}


def test_the_host_name_always_makes_a_gateway_name() -> None:
    name = host_name()
    assert read(f"gateway.name = '{name}'").settings.gateway.name == name
    assert name in os.uname().nodename or "-" in name


def test_a_machine_that_is_called_as_the_receipts_are_makes_another_name() -> None:
    with patch.object(os, "uname", lambda: types.SimpleNamespace(nodename="ingest")):
        assert host_name() == "ingest-gateway"


@pytest.mark.parametrize("text", ["a,b", "a, b,", "[a, b]", '["a", "b"]', " ['a', b] "])
def test_a_list_as_text_may_have_brackets_and_quotes(text: str) -> None:
    assert Texts(2, Text(1, 1)).from_text(text) == ["a", "b"]
