"""The configuration: what it takes, and each mistake with its place and what would be right."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.collect import assembly
from spark_ingest.collect.collector import EndWhen
from spark_ingest.config import ConfigError, Settings, kinds, load
from spark_ingest.config.kinds import ZONE_EXPECTED
from spark_ingest.config.settings import TABLES
from spark_ingest.config.template import template

LEAST = '[lake]\npath = "lake"\n[collector]\ntopics = ["farm/#"]\n'
SCHEMA = '[[schema]]\nname = "climate"\ntopic = "farm/+/climate"\n'


def loaded(folder: Path, text: str, *overrides: str) -> Settings:
    path = folder / "ingest.toml"
    path.write_text(text)
    return load(path, overrides)


def mistakes(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        loaded(folder, text, *overrides)
    return [line.replace(f"{folder}/", "") for line in raised.value.lines]


def test_what_init_prints_is_a_configuration_of_defaults(tmp_path: Path) -> None:
    from_template = loaded(tmp_path, template())
    assert from_template.collector.topics == ("sensors/#",)
    assert loaded(tmp_path, LEAST.replace("farm", "sensors")) == from_template


def test_every_line_that_init_makes_a_comment_is_valid_too(tmp_path: Path) -> None:
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line
        for line in template().splitlines()
    ]
    text = "\n".join(line for line in lines if not line.startswith("# "))
    settings = loaded(tmp_path, text.replace('"mqtt://127.0.0.1:1883"', '"mqtts://127.0.0.1"'))
    (schema,) = settings.schema
    assert schema.fields["temperature"].unit == "Cel"
    for table in TABLES:
        for each in fields(getattr(settings, table)):
            assert getattr(getattr(settings, table), each.name) is not None, each.name


def test_paths_begin_where_the_file_is_and_those_of_the_command_line_here(tmp_path: Path) -> None:
    assert loaded(tmp_path, LEAST).lake.folder == tmp_path / "lake"
    assert loaded(tmp_path, LEAST, "lake.path=other").lake.folder == Path("other")


@pytest.mark.parametrize(
    ("override", "table", "key", "value"),
    [
        ("collector.name=second", "collector", "name", "second"),
        ("collector.receive_max=7", "collector", "receive_max", 7),
        ("rotation.bytes_max=64KiB", "rotation", "bytes_max", 65_536),
        ("collector.keep_payload=true", "collector", "keep_payload", True),
        ('collector.topics=["a", "b/#"]', "collector", "topics", ("a", "b/#")),
        ("metrics.listen=", "metrics", "listen", None),
    ],
)
def test_the_command_line_replaces_what_the_file_says(
    tmp_path: Path, override: str, table: str, key: str, value: object
) -> None:
    settings = loaded(tmp_path, LEAST, override)
    assert getattr(getattr(settings, table), key) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'ingest.toml: lake.path: must be given: the folder of all segments, such as '
         'path = "lake"'),
        (LEAST + "receive_max = 1\n",
         "ingest.toml:5:1: collector.receive_max: expected a whole number from 2 to 65535, got 1"),
        (LEAST + "recieve_max = 5\n",
         "ingest.toml:5:1: collector.recieve_max: unknown key, did you mean "
         "collector.receive_max?"),
        (LEAST + "url = 'x'\n",
         "ingest.toml:5:1: collector.url: unknown key, did you mean broker.url?"),
        (LEAST + "[pulsar]\n",
         "ingest.toml:5:2: pulsar: unknown key, the file knows lake, broker, collector, "
         "acknowledge, rotation, kafka, metrics, log, spark, gaps, schema, route"),
        (LEAST + "[acknowledge]\ntopic = 'ack/{gw}'\n",
         "ingest.toml:6:1: acknowledge.topic: must have the levels {gw}, ack and {collector} once "
         "each, and no other sign with a meaning, such as tidegate/ingest/{gw}/ack/{collector}"),
        (LEAST + "[log]\nlevel = 'loud'\n",
         'ingest.toml:6:1: log.level: expected "debug", "info", "warning" or "error", got "loud"'),
        (LEAST + "[broker]\nurl = 'http://x'\n",
         'ingest.toml:6:1: broker.url: expected "mqtt://host:port" or "mqtts://host:port", got '
         '"http://x"'),
        (LEAST + "[broker]\npassword_file = 'p'\n",
         "ingest.toml:6:1: broker.password_file: is of no use without broker.username"),
        (LEAST + "[broker]\ncert_file = 'c'\nkey_file = 'k'\n",
         "ingest.toml:6:1: broker.cert_file: needs a broker.url that begins with mqtts://"),
        (LEAST + "[broker]\nurl = 'mqtts://x'\nkey_file = 'k'\n",
         "ingest.toml:7:1: broker.key_file: is of no use alone: give cert_file and key_file, or "
         "neither"),
        (LEAST + "[metrics]\nlisten = 'localhost:80'\n",
         'ingest.toml:6:1: metrics.listen: expected an IP address and a port, such as '
         '"127.0.0.1:9109", or "" for none, got "localhost:80"'),
        (LEAST + "[rotation]\nbytes_max = '3 apples'\n",
         'ingest.toml:6:1: rotation.bytes_max: expected a size from 1KiB to 4GiB, such as "16MiB", '
         'got "3 apples"'),
        (LEAST + "message_bytes_max = '1KiB'\nkeep_payload = 1\n",
         "ingest.toml:6:1: collector.keep_payload: expected true or false, got 1"),
        (LEAST + "[rotation]\nheld_bytes_max = 2000\n",
         "ingest.toml:6:1: rotation.held_bytes_max: must hold at least one message of "
         "collector.message_bytes_max (1048576 bytes)"),
        (LEAST + "[rotation]\nlinger_ms = true\n",
         "ingest.toml:6:1: rotation.linger_ms: expected a whole number from 1 to 3600000, got "
         "true"),
        (LEAST.replace('["farm/#"]', '[\n  "farm/#",\n  "#/farm",\n]'),
         'ingest.toml:4:1: collector.topics: expected 1 to 64 topic filters, such as '
         '["sensors/#"], got an array'),
        (LEAST.replace('["farm/#"]', "[]"),
         'ingest.toml:4:1: collector.topics: expected 1 to 64 topic filters, such as '
         '["sensors/#"], got an empty array'),
        (LEAST + "name = 'über'\n",
         "ingest.toml:5:1: collector.name: expected a name of letters, digits, dots, dashes and "
         'underscores, at most 64, got "über"'),
        (LEAST + SCHEMA + SCHEMA,
         'ingest.toml:9:1: schema.1.name: "climate" is the name of another schema already'),
        (LEAST + "[[schema]]\nname = 'x'\n",
         "ingest.toml:5:3: schema.0.topic: must be given, for each [[schema]] its own topic"),
        (LEAST + SCHEMA + "[schema.fields.t]\nmin = 2\nmax = 1\n",
         "ingest.toml:9:1: schema.0.fields.t.min: must not be more than max"),
        (LEAST + SCHEMA + "[schema.fields.t]\nkind = 'text'\nmax = 1\n",
         "ingest.toml:9:1: schema.0.fields.t.kind: has a range, so it must be a number"),
        (LEAST + SCHEMA + "[schema.fields.t]\nmin = '2'\n",
         'ingest.toml:9:1: schema.0.fields.t.min: expected a number from -1e+300 to 1e+300, got '
         '"2"'),
        (LEAST + SCHEMA + "format = 'senml'\ntime_field = 't'\n",
         'ingest.toml:9:1: schema.0.time_field: is of no use with format = "senml"'),
        (LEAST + SCHEMA + "fields = 3\n",
         "ingest.toml:8:1: schema.0.fields: expected a table of at most 256 tables, got 3"),
        (LEAST + "[schema]\n",
         "ingest.toml:5:2: schema: expected at most 256 tables, each below [[schema]], got a "
         "table"),
        ("lake = 3\n[collector]\ntopics = ['a']\n",
         "ingest.toml:1:1: lake: expected a table, got 3"),
        ("[lake]\npath = \"~/lake\"\n[collector]\ntopics = ['a']\n",
         'ingest.toml:2:1: lake.path: expected a path, without "~" at its beginning, got "~/lake"'),
        (LEAST + "[kafka]\nservers = 'kafka'\n",
         'ingest.toml:6:1: kafka.servers: expected host:port, or several with commas between, such '
         'as "kafka1:9092,kafka2:9092", got "kafka"'),
        (LEAST + "[kafka]\ntopic = '..'\n",
         "ingest.toml:6:1: kafka.topic: expected a topic of letters, digits, dots, dashes and "
         'underscores, at most 249, got ".."'),
        (LEAST + "[kafka]\nservers = 'k:9092'\nrecord_bytes_max = '2MiB'\n",
         "ingest.toml:7:1: kafka.record_bytes_max: must be 3MiB or more, to hold any message of "
         "collector.message_bytes_max; or lower that"),
        (LEAST + "[kafka]\nservers = 'k:9092'\nclient = { acks = 1 }\n",
         'ingest.toml:7:1: kafka.client: "acks" is not to be set: the promises rest on it, or '
         "another key decides it"),
        (LEAST + "[kafka]\nservers = 'k:9092'\nspark = { startingOffsets = 'latest' }\n",
         'ingest.toml:7:1: kafka.spark: "startingOffsets" is not to be set: the promises rest on '
         "it, or another key decides it"),
        ("[lake]\npath = lake\n",
         "ingest.toml: not valid TOML: Invalid value (at line 2, column 8); text needs quotes"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_what_would_be_right(
    tmp_path: Path, text: str, message: str
) -> None:
    assert message in mistakes(tmp_path, text)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = '[lake]\npath = 5\n[collector]\ntopics = ["a"]\nnmae = "x"\n[log]\nlevel = 1\n'
    found = mistakes(tmp_path, text)
    assert [line.split(": ")[0] for line in found] == [
        "ingest.toml:2:1", "ingest.toml:5:1", "ingest.toml:7:1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("collector.name=a b", "--set: collector.name: expected a name of letters, digits, dots, "
         'dashes and underscores, at most 64, got "a b"'),
        ("name=x", "--set: expected TABLE.KEY=VALUE with a table of lake, broker, collector, "
         'acknowledge, rotation, kafka, metrics, log, spark, gaps, got "name"'),
        ("collector.name", "--set: expected TABLE.KEY=VALUE with a table of lake, broker, "
         "collector, acknowledge, rotation, kafka, metrics, log, spark, gaps, got "
         '"collector.name"'),
    ],
)  # fmt: skip
def test_a_mistake_on_the_command_line_is_told_too(
    tmp_path: Path, override: str, message: str
) -> None:
    assert mistakes(tmp_path, LEAST, override) == [message]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "noise.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="expected UTF-8 text"):
        load(tmp_path / "noise.toml")
    (tmp_path / "long.toml").write_text("#" * (1 << 20) + "\n")
    with pytest.raises(ConfigError, match="at most 1048576 bytes"):
        load(tmp_path / "long.toml")


def test_no_more_mistakes_are_told_than_anybody_reads(tmp_path: Path) -> None:
    found = mistakes(tmp_path, LEAST + "".join(f"x{number} = 1\n" for number in range(60)))
    assert (len(found), found[-1]) == (51, "... and 10 more")


@given(st.text() | st.text("[]{}=\"'#\n.a1, "))
def test_no_text_raises_anything_else(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.toml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        with pytest.raises(ConfigError):
            load(path)


@pytest.mark.parametrize(
    ("key", "content", "words"),
    [
        ("ca_file", None, "broker.ca_file: .*: No such file"),
        ("ca_file", "no certificate", "not usable for TLS"),
        ("password_file", None, "broker.password_file: .*: No such file"),
    ],
)
def test_files_that_it_names_must_be_there_and_right(
    tmp_path: Path, key: str, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "file").write_text(content)
    text = LEAST + f'[broker]\nurl = "mqtts://x"\nusername = "u"\n{key} = "file"\n'
    with pytest.raises(ConfigError, match=words):
        assembly.collector_options(loaded(tmp_path, text), EndWhen.NEVER, 1.0)


@pytest.mark.parametrize(
    ("host", "read"),
    [
        ("[fe80::1%25lo]", "fe80::1%lo"), ("[FE80::1%lo]", "fe80::1%lo"), ("[::1]", "::1"),
        ("[fe80::1%252]", "fe80::1%2"),
    ],
)  # fmt: skip
def test_a_broker_may_have_a_zone(tmp_path: Path, host: str, read: str) -> None:
    url = loaded(tmp_path, LEAST + f'[broker]\nurl = "mqtt://{host}:9"\n').broker.url
    assert url == (read, 9, False)
    assert loaded(tmp_path, LEAST + f'[broker]\nurl = "{url}"\n').broker.url == url


@pytest.mark.parametrize(
    "host", ["[fe80::1%]", "[fe80::1%25]", "[fe80::1%25a%25]", "[1.2.3.4%25a]", "a%25b"]
)
def test_a_zone_of_another_form_is_refused_with_one_that_is_right(
    tmp_path: Path, host: str
) -> None:
    (mistake,) = mistakes(tmp_path, LEAST + f'[broker]\nurl = "mqtt://{host}:9"\n')
    assert mistake.endswith(f'broker.url: expected {ZONE_EXPECTED}, got "mqtt://{host}:9"')


def test_an_address_of_another_form_is_refused(tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, LEAST + '[broker]\nurl = "mqtt://[:::1]:9"\n')
    assert '"mqtts://host:port", got "mqtt://[:::1]:9"' in mistake


def test_the_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"secret\nrest")
    text = LEAST + '[broker]\nusername = "u"\npassword_file = "file"\n'
    assert assembly.session_options(loaded(tmp_path, text)).password == b"secret"


def test_who_does_not_collect_need_not_say_what(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    path.write_text(
        '[lake]\npath = "lake"\n[spark]\nconf = { "spark.ui.enabled" = true, "a.b" = 2 }\n'
    )
    settings = load(path, collects=False)
    assert settings.collector.topics == ()
    assert settings.spark.conf == {"spark.ui.enabled": "true", "a.b": "2"}


def path_keys() -> list[str]:
    keys = []
    for table, owner in TABLES.items():
        for each in fields(owner):
            kind = each.metadata.get("kind")
            if kind is not None and kind.expected == kinds.file_path().expected:
                keys.append(f"{table}.{each.name}")
    return keys


@pytest.mark.parametrize("key", path_keys())
@pytest.mark.parametrize("url", ["s3a://bucket/x", "hdfs://host/x", "dbfs:/x", "file://host/x"])
def test_no_url_that_is_not_of_this_machine_becomes_a_folder(
    tmp_path: Path, key: str, url: str
) -> None:
    where, _, name = key.partition(".")
    (tmp_path / "x.toml").write_text(f'[{where}]\n{name} = "{url}"\n')
    for source, overrides in ((tmp_path / "x.toml", []), (None, [f"{key}={url}"])):
        with pytest.raises(ConfigError, match=r"only file:///\.\.\.: mount"):
            load(source, overrides, collects=False)


def test_a_lake_may_be_given_as_a_url_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('[lake]\npath = "file:///srv/lake"\n')
    assert load(tmp_path / "x.toml", collects=False).lake.folder == Path("/srv/lake")
