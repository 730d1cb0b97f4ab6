"""Each fault of faults.txt gives exactly the lines that stand there."""

import re
from pathlib import Path

import pytest

from gateway.config import ConfigError, load
from tests.config.reading import complaints, read

TABLE = Path(__file__).with_name("faults.txt").read_text()


def faults() -> list[tuple[str, str, list[str]]]:
    found = []
    for block in TABLE.split("=== ")[1:]:
        name, _, rest = block.partition("\n")
        text, _, lines = rest.rpartition("---\n")
        found.append((name, text, lines.strip().split("\n")))
    return found


@pytest.mark.parametrize(
    ("text", "lines"), [pytest.param(text, lines, id=name) for name, text, lines in faults()]
)
def test_a_fault_is_reported_by_exactly_its_lines(text: str, lines: list[str]) -> None:
    assert complaints(text) == lines


def test_the_table_holds_the_promised_number_of_faults() -> None:
    assert len({name for name, _, _ in faults()}) >= 90


def test_nearly_all_of_them_are_shown_at_their_place_and_say_what_would_be_right() -> None:
    placed, advised = 0, 0
    for _, _, lines in faults():
        placed += all(re.match(r"c\.toml:\d+:\d+: ", line) for line in lines)
        advised += all(re.search(r"expected|did you mean|knows", line) for line in lines)
    assert min(placed, advised) >= 90


def test_octets_that_are_not_utf8_are_reported_where_they_are() -> None:
    text = '[log]\n# é\nlevel = "d'.encode() + b'\xe9"\n'
    assert complaints(text) == ["c.toml:3:11: expected UTF-8 text, got the byte 0xE9"]


def test_lines_count_alike_with_the_line_ends_of_windows_and_a_byte_order_mark() -> None:
    text = b'\xef\xbb\xbf[log]\r\n# so\r\nlevel = "loud"\r\n'
    assert complaints(text)[0].startswith("c.toml:3:9: log.level: expected")
    assert complaints(b"\xef\xbb\xbflog.levl = 1")[0].startswith("c.toml:1:5: log.levl: unknown")


def test_text_that_ends_too_early_is_reported_at_its_end() -> None:
    assert complaints('[gateway]\nname = """abc') == [
        "c.toml:2:14: not valid TOML: Unterminated string"
    ]


def test_a_number_of_thousands_of_digits_is_reported_where_it_is() -> None:
    text = f"[gateway]\nid = {'1' * 5000}\n"
    assert complaints(text) == ["c.toml:2:6: expected a number of fewer digits"]


@pytest.mark.parametrize("opening", ["[", "{a=", "[{a="])
def test_values_nested_too_deeply_are_reported(opening: str) -> None:
    text = f"x = {opening * 20_000}"
    assert complaints(text) == ["c.toml: expected values nested less deeply"]


def test_a_file_that_is_not_there_is_reported_without_a_line() -> None:
    with pytest.raises(ConfigError) as refused:
        load(Path("none.toml"), environment={}, overrides=())
    assert str(refused.value) == "none.toml: cannot be read: No such file or directory"


def test_a_folder_in_place_of_the_file_is_reported(folder: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(folder, environment={}, overrides=())
    assert str(refused.value) == f"{folder}: cannot be read: Is a directory"


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError) as refused:
        load(path, environment={}, overrides=())
    assert str(refused.value) == f"{path}: expected a file of at most 8388608 bytes"


def test_of_very_many_faults_the_first_are_shown_and_the_rest_counted() -> None:
    text = "".join(f"key{number} = 1\n" for number in range(20_000))
    lines = complaints(text)
    assert len(lines) == 101
    assert lines[-1] == "... and 19900 more"


@pytest.mark.parametrize("name", ["c\n.toml", "\x1b[2J", "\udce9"])
def test_what_files_and_variables_are_called_cannot_break_the_line_either(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(Path(name), environment={f"TIDEGATE_LOG__{name}": "1"}, overrides=[f"{name}=1"])
    assert len(refused.value.problems) == 3
    assert all(str(problem).isprintable() for problem in refused.value.problems)


def test_what_a_message_shows_cannot_break_its_line_or_the_terminal() -> None:
    lines = complaints('[log]\n"a\\u001b[2J\\nb" = 1\nlevel = "\\u202e\\u0007\\n"\n')
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        f"[{'k' * 9999}]",
        f"[{'k' * 9999}]\n[{'k' * 9999}]",
        f'[predefined_topics]\n"{"t" * 9999}" = 1\n"{"u" * 9999}" = 1',
        f'[predefined_topics]\n"{"#" * 9999}" = 1',
        f"[a]\nb = 1\n[a.b.{'c' * 9999}]",
        f'[gateway]\nname = "{"n" * 9999}"',
    ],
)
def test_what_a_message_shows_is_shortened(text: str) -> None:
    assert max(map(len, complaints(text))) < 600


def test_a_syntax_error_hides_no_problem_of_another_source() -> None:
    lines = complaints("[log", {"TIDEGATE_LOG__LEVEL": "loud"}, ["gateway.id=300"])
    assert [line.partition(":")[0] for line in lines] == [
        "c.toml",
        "environment TIDEGATE_LOG__LEVEL",
        "command line",
    ]


def test_rules_about_two_keys_wait_until_the_file_is_readable() -> None:
    """The file may hold the user name that the password of the variable needs."""
    lines = complaints("[log", {"TIDEGATE_UPSTREAM__PASSWORD_FILE": "secret"})
    assert lines == ["c.toml:1:5: not valid TOML: Expected ']' at the end of a table declaration"]


def test_a_password_in_the_wrong_place_is_never_shown() -> None:
    password = "hunter2"
    everywhere = complaints(
        f'[upstream]\nurl = "mqtt://me:{password}@broker"\npassword = "{password}"\n',
        {
            "TIDEGATE_UPSTREAM__URL": f"me:x@{password}@broker",
            "TIDEGATE_UPSTREAM__PASSWORD": password,
            "TIDEGATE_UPSTREAM_USERNAME": password,
        },
        [f"upstream.password={password}", f"upstream password={password}"],
    )
    assert len(everywhere) == 7
    assert not [line for line in everywhere if password in line]


def test_a_file_with_a_mistake_that_a_variable_would_hide_is_still_refused() -> None:
    assert complaints("[gateway]\nid = 300\n", {"TIDEGATE_GATEWAY__ID": "3"}) == [
        "c.toml:2:6: gateway.id: expected a whole number from 0 to 255, got 300"
    ]


def test_an_empty_file_is_right() -> None:
    assert read("").warnings == ()
