"""Who decides: command line before environment before file before default, and who is named."""

import pytest

from gateway.config import HostPort, load
from tests.config.reading import complaints, read

FILE = '[upstream]\nurl = "mqtt://file"\n'
VARIABLE = {"TIDEGATE_UPSTREAM__URL": "mqtt://variable"}
OPTION = ["upstream.url=mqtt://option"]


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "host", "origin"),
    [
        ("", {}, [], "127.0.0.1", "default"),
        (FILE, {}, [], "file", "c.toml:2:7"),
        (FILE, VARIABLE, [], "variable", "environment TIDEGATE_UPSTREAM__URL"),
        (FILE, VARIABLE, OPTION, "option", "command line"),
        ("", VARIABLE, OPTION, "option", "command line"),
        (FILE, {}, OPTION, "option", "command line"),
        ("", VARIABLE, [], "variable", "environment TIDEGATE_UPSTREAM__URL"),
    ],
)
def test_the_highest_source_decides_and_is_remembered(
    text: str, environment: dict[str, str], overrides: list[str], host: str, origin: str
) -> None:
    configuration = read(text, environment, overrides)
    assert configuration.settings.upstream.host == host
    assert configuration.origin_of("upstream.url") == origin


def test_without_a_file_there_are_defaults() -> None:
    assert load(None, environment={}, overrides=()).settings == read("").settings


def test_sources_are_merged_key_by_key() -> None:
    settings = read(
        "[log]\nlevel = 'debug'\nformat = 'json'\n", {"TIDEGATE_LOG__LEVEL": "error"}
    ).settings
    assert (settings.log.level, settings.log.format) == ("error", "json")


def test_the_last_of_two_equal_options_holds() -> None:
    overrides = ["gateway.id=3", "log.level=debug", "gateway.id=4"]
    assert read("", overrides=overrides).settings.gateway.id == 4


@pytest.mark.parametrize(
    ("assignment", "attribute", "value"),
    [
        ("gateway.id=7", ("gateway", "id"), 7),
        ("mqtt_sn.retry_after_s=0.5", ("mqtt_sn", "retry_after_s"), 0.5),
        ("mqtt_sn.retry_after_s=12", ("mqtt_sn", "retry_after_s"), 12.0),
        ("qos_minus_one.allow=true", ("qos_minus_one", "allow"), True),
        ("mqtt_sn.allow_trailing_octets=false", ("mqtt_sn", "allow_trailing_octets"), False),
        ("limits.outbox_bytes_max=64KiB", ("limits", "outbox_bytes_max"), 65536),
        ("limits.outbox_bytes_max=2048", ("limits", "outbox_bytes_max"), 2048),
        ("admin.listen=[::1]:0", ("admin", "listen"), HostPort("::1", 0)),
        ("admin.listen=", ("admin", "listen"), None),
        ("upstream.username=7", ("upstream", "username"), "7"),
        ("upstream.username= a=b ", ("upstream", "username"), "a=b"),
        ("\"gateway\".'name' = roof", ("gateway", "name"), "roof"),
    ],
)
def test_text_of_an_option_becomes_what_its_key_takes(
    assignment: str, attribute: tuple[str, str], value: object
) -> None:
    table, name = attribute
    assert getattr(getattr(read("", overrides=[assignment]).settings, table), name) == value


def test_a_variable_takes_the_same_text_as_an_option() -> None:
    environment = {
        "TIDEGATE_QOS_MINUS_ONE__ALLOW": "true",
        "TIDEGATE_LIMITS__OUTBOX_BYTES_MAX": "1MiB",
        "TIDEGATE_ADMIN__LISTEN": "",
        "TIDEGATE_GATEWAY__NAME": "Dach",
    }
    settings = read("", environment).settings
    assert settings.qos_minus_one.allow
    assert settings.limits.outbox_bytes_max == 2**20
    assert settings.admin.listen is None
    assert settings.gateway.name == "Dach"


def test_a_variable_changes_one_key_of_a_listener_and_leaves_the_others() -> None:
    text = '[[udp]]\nlisten = "0.0.0.0:1"\ntick_ms_max = 5\n[[udp]]\nlisten = "0.0.0.0:2"\n'
    configuration = read(text, {"TIDEGATE_UDP__0__LISTEN": "0.0.0.0:3"})
    first, second = configuration.settings.udp
    assert (first.listen.port, first.tick_ms_max, second.listen.port) == (3, 5, 2)
    assert configuration.origin_of("udp.0.tick_ms_max") == "c.toml:3:15"
    assert configuration.origin_of("udp.0.listen") == "environment TIDEGATE_UDP__0__LISTEN"


def test_the_default_listener_is_entry_0() -> None:
    settings = read("", {"TIDEGATE_UDP__0__LISTEN": "127.0.0.1:0"}).settings
    assert [listener.listen for listener in settings.udp] == [HostPort("127.0.0.1", 0)]


def test_the_next_free_number_adds_a_listener_in_whatever_order_they_come() -> None:
    environment = {f"TIDEGATE_UDP__{n}__LISTEN": f"0.0.0.0:{n + 1}" for n in (10, 2, 1, 9)}
    environment |= {f"TIDEGATE_UDP__{n}__LISTEN": f"0.0.0.0:{n + 1}" for n in range(3, 9)}
    ports = [listener.listen.port for listener in read("", environment).settings.udp]
    assert ports == [1883, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_number_beyond_the_next_free_one_is_a_mistake() -> None:
    assert complaints("", {"TIDEGATE_UDP__2__LISTEN": "0.0.0.0:3"}) == [
        'environment TIDEGATE_UDP__2__LISTEN: udp: expected a number up to 1 after udp, got "2"'
    ]


def test_listeners_are_limited_in_number_from_every_source() -> None:
    text = "".join(f'[[udp]]\nlisten = "0.0.0.0:{port}"\n' for port in range(1, 19))
    assert complaints(text, {}, ["udp.16.listen=0.0.0.0:99"]) == [
        "c.toml:33:3: udp: expected at most 16 of them",
        'command line: udp: expected a number up to 15 after udp, got "16"',
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("UPSTREAM__URLL", "upstream.urll: unknown key, did you mean upstream.url?"),
        ("UPSTREM__URL", "upstrem: unknown key, did you mean upstream?"),
        ("UPSTREAM__URL__X", "upstream.url.x: unknown key, url is a single value"),
        ("UDP__LISTEN", 'udp: expected a number up to 1 after udp, got "listen"'),
        ("UDP__0", "udp.0: expected the key of a single value below it"),
        ("SERIAL__1__PORT", 'serial: expected a number up to 0 after serial, got "1"'),
        ("LOG_LEVEL", "log.level: did you mean TIDEGATE_LOG__LEVEL, with two underscores?"),
        (
            "PREDEFINED_TOPICS__A",
            "predefined_topics: expected in the file or by --set, as variables cannot spell "
            "every name",
        ),
    ],
)
def test_a_variable_that_means_no_key_is_a_mistake(name: str, line: str) -> None:
    variable = f"TIDEGATE_{name}"
    assert complaints("", {variable: "1"}) == [f"environment {variable}: {line}"]


def test_variables_of_others_are_none_of_our_business() -> None:
    """Kubernetes announces a service of our name in just this way."""
    environment = {
        "TIDEGATE_PORT": "tcp://10.0.0.1:1883",
        "TIDEGATE_SERVICE_HOST": "10.0.0.1",
        "TIDEGATE": "x",
        "PATH": "/bin",
        "UPSTREAM__URL": "x",
    }
    assert read("", environment).origins == {}


def test_octets_in_a_variable_that_are_not_utf8_are_refused() -> None:
    assert complaints("", {"TIDEGATE_GATEWAY__NAME": "d\udce9p"}) == [
        "environment TIDEGATE_GATEWAY__NAME: gateway.name: expected text of 1 to 64 characters "
        'without + # / or control characters, got "d\\uDCE9p"'
    ]


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("", 'expected KEY=VALUE, such as upstream.keep_alive_s=60, got ""'),
        ("=", 'expected KEY=VALUE, such as upstream.keep_alive_s=60, got ""'),
        ("gateway.id", 'expected KEY=VALUE, such as upstream.keep_alive_s=60, got "gateway.id"'),
        ("a/b=1", 'expected KEY=VALUE, such as upstream.keep_alive_s=60, got "a/b"'),
        ('"a=1', 'expected KEY=VALUE, such as upstream.keep_alive_s=60, got "\\"a"'),
        ("gateway.id=", 'gateway.id: expected a whole number from 0 to 255, got ""'),
        ("gateway.id=0x10", 'gateway.id: expected a whole number from 0 to 255, got "0x10"'),
        ("gateway.id=٣", 'gateway.id: expected a whole number from 0 to 255, got "٣"'),
        (
            f"gateway.id={'9' * 30}",
            f'gateway.id: expected a whole number from 0 to 255, got "{"9" * 30}"',
        ),
        ("qos_minus_one.allow=1", 'qos_minus_one.allow: expected true or false, got "1"'),
        ("upstream=x", "upstream: expected the key of a single value below it"),
        (
            'predefined_topics."a/#"=1',
            'predefined_topics."a/#": expected text of 1 to 64511 bytes without + # or control '
            'characters, got "a/#" as its name',
        ),
        ("clients.a.b=1", "clients.a.b: unknown key, [clients.a] knows predefined_topics"),
    ],
)
def test_an_option_that_cannot_be_read_is_a_mistake(option: str, line: str) -> None:
    assert complaints("", overrides=[option]) == [f"command line: {line}"]


def test_topics_and_clients_can_be_set_by_options() -> None:
    overrides = ['predefined_topics."sensors/b=t"=1', 'clients."pump 7".predefined_topics.x=2']
    configuration = read("", overrides=overrides)
    assert configuration.settings.predefined_topics == {"sensors/b=t": 1}
    assert configuration.settings.clients["pump 7"].predefined_topics == {"x": 2}
    assert configuration.origin_of('predefined_topics."sensors/b=t"') == "command line"
    assert configuration.origin_of('clients."pump 7".predefined_topics.x') == "command line"
