"""Whatever a source holds: a Configuration or a ConfigError whose problems are one line each."""

import string

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import ConfigError
from gateway.config.keys import ROOT
from gateway.config.schema import known_keys
from gateway.config.spelling import dotted
from gateway.config.template import template
from tests.config.reading import read
from tests.support.samples import examples

LINE_LENGTH_MAX = 1500

KEYS = [dotted(path).replace(".0.", ".") for path in known_keys(ROOT)]
WORDS = [word for key in KEYS for word in key.split(".")]
PIECES = [
    *WORDS,
    *KEYS,
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "\r\n",
    "\r",
    "#",
    " ",
    "\x00",
    "\ufeff",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    '"a/b"',
    '"x@y"',
    '"mqtt://a@b"',
    '"[::1]:1"',
    '"~"',
    '"1KiB"',
    "0",
    "-1",
    "1e999",
    "0x" + "f" * 40,
    "9" * 30,
    "nan",
    "true",
    "1979-05-27",
    "00:00:00",
    "serial",
    "clients",
    "predefined_topics",
    "\u202e",
    "\ud7ff",
    "\U0010ffff",
]
FROM_PIECES = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
NAMES = st.text(string.ascii_letters + "_019", max_size=12)
TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=20)
VALUES = st.one_of(TEXTS, st.sampled_from(PIECES))


def outcome(
    text: str | bytes, environment: dict[str, str] | None = None, overrides: tuple[str, ...] = ()
) -> None:
    try:
        read(text, environment or {}, overrides)
    except ConfigError as error:
        refused = error
    else:
        return
    assert refused.problems
    for problem in refused.problems:
        line = str(problem)
        assert line.isprintable(), line
        assert len(line) < LINE_LENGTH_MAX, line


@examples(times=2)
@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    outcome(octets)


@examples(times=3)
@given(FROM_PIECES)
def test_any_text_made_of_the_pieces_of_a_configuration(text: str) -> None:
    outcome(text.encode())


@examples(times=2)
@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=6))
def test_any_value_for_any_key(assignments: list[tuple[str, str]]) -> None:
    lines = [f"{key} = {value}" for key, value in assignments]
    outcome("\n".join(lines).encode("utf-8", "replace"))


@settings(examples(times=2), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_to_a_whole_file(data: st.DataObject) -> None:
    text = template().replace("\n#", "\n")
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 40)))
    outcome((text[:at] + data.draw(FROM_PIECES) + text[until:]).encode())


@examples(times=2)
@given(
    st.dictionaries(
        st.one_of(NAMES, st.sampled_from(KEYS).map(lambda key: key.replace(".", "__").upper())).map(
            lambda name: f"TIDEGATE_{name}"
        ),
        VALUES,
        max_size=4,
    ),
    st.lists(
        st.one_of(TEXTS, FROM_PIECES, st.tuples(st.sampled_from(KEYS), VALUES).map("=".join)),
        max_size=4,
    ),
)
def test_any_variables_and_options(environment: dict[str, str], overrides: list[str]) -> None:
    outcome("", environment, tuple(overrides))
