"""The scanner beside tomllib: the same keys, and each where its text stands."""

import tomllib
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.positions import Position, places
from gateway.config.spelling import KeyPath, quoted

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
LITERALS = st.sampled_from(["#", "]", "}", "'", '"', "\\", "=", ",", '"""', "'''", "[x]", "\n"])
STRINGS = st.one_of(TEXTS, LITERALS)

NUMBERS = ["1", "-1", "0x1F", "1_000", "1.5e3", "nan", "-inf"]
TIMES = ["1979-05-27", "07:32:00", "1979-05-27 07:32:00.5", "1979-05-27T07:32:00-08:00"]
QUOTES = ['""', "''", '""""""', "''''''", "'a\"]#'", '"\\"]#\\\\"']
LINES = ["'''a\n''b]\n#'''", '"""a\n""b]\\"""#"""""']
SCALARS = st.sampled_from(["true", *NUMBERS, *TIMES, *QUOTES, *LINES])
SPACES = st.sampled_from(["", " ", "\t "])
BREAKS = st.sampled_from(["", " ", "\n", ' # ]},"\n', "\n\n\t"])
BARE = st.text("abc-_09", min_size=1, max_size=3)
KEYS = st.one_of(BARE, STRINGS.map(quoted), BARE.map(lambda name: f"'{name}.#'"))


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    form = draw(st.integers(0, 3 if depth else 1))
    if form == 0:
        return draw(SCALARS)
    if form == 1:
        return quoted(draw(STRINGS))
    inner = draw(st.lists(values(depth - 1), max_size=3))
    if form == 2:
        body = ",".join(draw(BREAKS) + value + draw(BREAKS) for value in inner)
        comma = draw(st.sampled_from(["", ","])) if inner else ""
        return f"[{body}{comma}{draw(BREAKS)}]"
    names = [f"k{number}" for number in range(len(inner))]
    pairs = [
        f"{draw(SPACES)}{name}{draw(SPACES)}={draw(SPACES)}{value}{draw(SPACES)}"
        for name, value in zip(names, inner, strict=True)
    ]
    return "{" + ",".join(pairs) + "}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    """TOML in which no table is declared twice, and everything else may happen."""
    lines = [draw(pairs())]
    for number in range(draw(st.integers(0, 3))):
        form = draw(
            st.sampled_from(["[{0}]", "[[{0}]]\n{1}[[{0}]]", "[ {0} . sub ]", "[[{0}.list]]"])
        )
        lines.append(form.format(f"table{number}", draw(pairs())) + draw(SPACES))
        lines.append(draw(pairs()))
    return "\n".join(lines)


@st.composite
def pairs(draw: st.DrawFn) -> str:
    keys = draw(st.lists(KEYS, max_size=4))
    written = [
        f"{draw(SPACES)}p{number}{draw(SPACES)}.{draw(SPACES)}{key} = {draw(values())} # {key!r}\n"
        for number, key in enumerate(keys)
    ]
    return "".join(written)


def paths(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*path, name))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def rest_of(text: str, position: Position) -> str:
    lines = text.split("\n")[position.line - 1 :]
    return "\n".join([lines[0][position.column - 1 :], *lines[1:]])


@given(documents())
def test_every_key_of_any_document_has_a_place_and_nothing_else_has(text: str) -> None:
    assert places(text).keys() == dict(paths(tomllib.loads(text))).keys()


@given(documents())
def test_the_text_at_the_place_of_a_value_is_that_value(text: str) -> None:
    where = places(text)
    for path, value in paths(tomllib.loads(text)):
        rest = rest_of(text, where[path].value)
        if isinstance(value, str):
            assert rest.startswith(('"', "'"))
            assert begins_with(rest, value)
        elif isinstance(value, bool | int | float):
            assert begins_with(rest, value)


def begins_with(rest: str, value: object) -> bool:
    """Whether some beginning of the text is TOML for the value."""
    for end in range(1, len(rest) + 1):
        try:
            read = tomllib.loads(f"x = {rest[:end]}")["x"]
        except tomllib.TOMLDecodeError:
            continue
        if read == value or read != read:
            return True
    return False


@given(documents())
def test_the_text_at_the_place_of_a_key_is_that_key(text: str) -> None:
    where = places(text)
    for path, _ in paths(tomllib.loads(text)):
        name = path[-1]
        if isinstance(name, str):
            rest = rest_of(text, where[path].key)
            assert rest.startswith(name) or rest.startswith(('"', "'"))


def test_a_place_counts_characters_and_not_octets() -> None:
    assert places('"ä€" = 1\n\t"😀"="é"')[("😀",)] == (Position(2, 2), Position(2, 6))


def test_the_place_of_a_table_is_where_its_name_stands() -> None:
    text = "[a.b]\n[[c]]\n[[c]]\n[c.d]\n"
    assert {path: tuple(place.key) for path, place in places(text).items()} == {
        ("a",): (1, 2),
        ("a", "b"): (1, 4),
        ("c",): (2, 3),
        ("c", 0): (2, 3),
        ("c", 1): (3, 3),
        ("c", 1, "d"): (4, 4),
    }
