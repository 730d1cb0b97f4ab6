"""What is made from the table of keys: the file of `init`, the reference, the listing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.config.keys import ROOT
from gateway.config.listing import as_toml, entries
from gateway.config.reference import reference
from gateway.config.schema import known_keys
from gateway.config.spelling import dotted, quoted
from gateway.config.template import template
from tests.config.reading import complaints, read
from tests.support.samples import for_each

REPOSITORY = Path(__file__).parents[2]
LINES = template().split("\n")


def is_example(line: str) -> bool:
    return line[:1] == "#" and line[1:2] > " "


def block(header: str) -> list[int]:
    """The examples below a header, with it."""
    first = LINES.index(header)
    last = LINES.index("", first)
    return [number for number in range(first, last) if is_example(LINES[number])]


EXAMPLES = [number for number, line in enumerate(LINES) if is_example(line)]

TOPIC = block("#[[topic]]")
SERIAL = block("#[[serial]]")
# What must be there of a table that is a comment as a whole, by its lines.
VALUE = block("#[[home_assistant_value]]")
CLIENT = block("#[[presence_client]]")
DEVICE = block("#[[home_assistant_device]]")
BINDING = block("#[[binding]]")
ACCESS = block("#[[access]]")
USER = block("#[[admin_user]]")
TOKEN = block("#[[admin_token]]")
COMMAND = block("#[[home_assistant_command]]")
NEEDED = (
    dict.fromkeys(TOPIC, TOPIC[:3])
    | dict.fromkeys(SERIAL, SERIAL[:2])
    | dict.fromkeys(VALUE, VALUE[:2])
    | dict.fromkeys(CLIENT, CLIENT[:3])
    | dict.fromkeys(DEVICE, DEVICE[:3])
    | dict.fromkeys(BINDING, BINDING[:3])
    | dict.fromkeys(ACCESS, ACCESS[:2])
    | dict.fromkeys(USER, USER[:3])
    | dict.fromkeys(TOKEN, TOKEN[:3])
    | dict.fromkeys(COMMAND, COMMAND[:4])
)


def with_uncommented(numbers: set[int]) -> str:
    return "\n".join(line[number in numbers :] for number, line in enumerate(LINES))


def test_the_file_of_init_says_nothing_but_defaults() -> None:
    assert read(template()).settings == read("").settings
    assert read(template()).warnings == ()
    assert set(tomllib.loads(template())) >= {"gateway", "udp", "upstream", "limits"}


def test_the_file_of_init_holds_every_key() -> None:
    everything = read(with_uncommented(set(EXAMPLES)))
    assert set(map(dotted, known_keys(ROOT))) <= set(everything.origins)
    assert everything.settings.predefined_topics
    assert everything.settings.clients


def test_its_examples_stay_right_while_they_are_uncommented_one_after_another() -> None:
    # Of what is of use only together.
    incomplete = [
        TOPIC[0],
        TOPIC[1],
        SERIAL[0],
        VALUE[0],
        *BINDING[:2],
        ACCESS[0],
        *USER[:2],
        *TOKEN[:2],
        *CLIENT[:2],
        *DEVICE[:2],
        *COMMAND[:3],
    ]
    incomplete.append(LINES.index("#burst_bytes_max = 32"))
    for count in range(len(EXAMPLES) + 1):
        if count == 0 or EXAMPLES[count - 1] not in incomplete:
            read(with_uncommented(set(EXAMPLES[:count])))


def test_a_key_that_is_uncommented_without_its_table_is_found() -> None:
    tables = (TOPIC, SERIAL, VALUE, BINDING, ACCESS, USER, TOKEN, CLIENT, DEVICE, COMMAND)
    for number in (each for table in tables for each in table[1:]):
        if not LINES[number].startswith("#security "):  # [[udp]], before it, has it as well
            assert complaints(with_uncommented({number}))


@for_each("number", EXAMPLES, shown=lambda number: LINES[number])
def test_each_example_is_right_with_what_its_comment_says_it_needs(number: int) -> None:
    numbers = {number, *NEEDED.get(number, ())}
    comment = LINES[number - 1]
    for needed in ("username", "cert_file", "multicast", "frame_gap_ms", "certificate"):
        if f"needs {needed}" in comment:
            places = [at for at, one in enumerate(LINES) if one.startswith(f"#{needed} ")]
            numbers.add(min(places, key=lambda at: abs(number - at)))  # in its own table
    if "needs mqtts://" in comment:
        numbers.add(LINES.index(next(one for one in LINES if one.startswith("#url "))))
    if is_example(LINES[number - 1]):
        numbers.add(number - 1)  # the header of a table
    read(with_uncommented(numbers))


def test_the_file_of_init_is_plain_and_fits_a_terminal() -> None:
    assert template().isascii()
    assert max(map(len, LINES)) <= 100
    assert template().endswith("\n")


def test_the_reference_in_docs_is_what_the_code_says() -> None:
    stale = "docs/configuration.md is stale: python -m gateway.config.reference > it"
    assert (REPOSITORY / "docs" / "configuration.md").read_text() == reference(), stale


def test_the_command_in_the_reference_makes_it() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "gateway.config.reference"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == reference()


def test_every_key_has_a_heading_of_its_own_in_the_reference() -> None:
    headings = [line for line in reference().split("\n") if line.startswith("#### ")]
    for path in known_keys(ROOT):
        name = ".".join(part for part in path if isinstance(part, str))
        assert headings.count(f"#### `{name}`") == 1
    anchors = {re.sub(r"[^\w\- ]", "", heading) for heading in headings}
    assert len(anchors) == len(headings)


def test_the_mistakes_in_the_reference_are_shown_as_they_would_be() -> None:
    example = reference().split("```")[1].strip().split("\n")
    text = '\n\n\n\n[upstream]\nkeep_alive_s = 0\n\n\npasword_file = "x"\n'
    assert complaints(text, {"TIDEGATE_LOG__FORMAT": "xml"}) == [
        line.replace("config.toml", "c.toml") for line in example
    ]


def test_a_listing_reads_back_as_the_same_settings() -> None:
    text = '[predefined_topics]\n"a/\\u0022b" = 7\n[clients."x y".predefined_topics]\nc = 8\n'
    overrides = ["udp.0.listen=[::1]:5", "udp.1.listen=127.0.0.1:5", "admin.listen="]
    before = read(text + with_uncommented(set()), overrides=overrides)
    listed = "\n".join(as_toml(entries(before)))
    assert read(listed).settings == before.settings


def test_a_listing_of_everything_reads_back_as_the_same_settings() -> None:
    before = read(with_uncommented(set(EXAMPLES)))
    assert read("\n".join(as_toml(entries(before)))).settings == before.settings


def test_a_listing_names_the_source_of_each_value() -> None:
    configuration = read('log.level = "debug"', {"TIDEGATE_LOG__FORMAT": "json"}, ["gateway.id=2"])
    origins = {dotted(entry.path): entry.origin for entry in entries(configuration)}
    assert origins["log.level"] == "c.toml:1:13"
    assert origins["log.format"] == "environment TIDEGATE_LOG__FORMAT"
    assert origins["gateway.id"] == "command line"
    assert origins["gateway.name"] == "default"


@pytest.mark.parametrize("text", ["", 'a"b\\c', "\n\t\x00\x7f\x9f", "é\u202e\U000e0001", "x" * 99])
def test_quoted_text_is_toml_for_that_text(text: str) -> None:
    assert tomllib.loads(f"x = {quoted(text)}")["x"] == text
    assert quoted(text).isprintable()
