"""Links of the documents lead somewhere, what they show as configuration is one, and what they say
to type can be typed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli.parsing import whole_parser
from gateway.config import ConfigError, load
from tests.house import house_rules
from tests.support.samples import for_each

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in house_rules.tracked(REPOSITORY) if path.suffix == ".md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)|href=\"([^\"]+)\"|src=\"([^\"]+)\"")
_CODE = re.compile(r"```.*?```", re.DOTALL)
_TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)


def slugs(text: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    found: set[str] = set()
    for line in _CODE.sub("", text).splitlines():
        if line.startswith("#"):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found | set(re.findall(r'<a id="([^"]+)"', text))


def broken(path: Path) -> Iterator[str]:
    text = path.read_text()
    for link in ("".join(groups) for groups in _LINK.findall(_CODE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in slugs(target.read_text()):
            yield f"{link}: there is no such heading"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(broken(path)) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[x](gone.md)", "no such file"),
        ("[x](there.md#nowhere)", "no such heading"),
        ("[x](#here)", "no such heading"),
        ("[x](there.md#some-other-words)", None),
        ("[x](there.md) [y](https://example.org/z)", None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, link: str, why: str | None) -> None:
    (tmp_path / "there.md").write_text("# Some, other `words`\n")
    page = tmp_path / "page.md"
    page.write_text(link)
    found = list(broken(page))
    assert len(found) == (why is not None)
    assert all(str(why) in each for each in found)


# What stands there is for another program than the gateway: boards, and tables.
NOT_THE_GATEWAYS = {"flashing.md", "hil.md", "spark.md"}


def examples() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        if path.name in NOT_THE_GATEWAYS or path.is_relative_to(REPOSITORY / "firmware"):
            continue
        for number, text in enumerate(_TOML.findall(path.read_text())):
            yield f"{path.relative_to(REPOSITORY)}-{number}", text


@pytest.mark.parametrize(("name", "text"), [pytest.param(*each, id=each[0]) for each in examples()])
def test_what_stands_there_as_configuration_is_one(name: str, text: str, tmp_path: Path) -> None:
    assert name
    file = tmp_path / "config.toml"
    file.write_text(text)
    try:
        load(file, environment={}, overrides=())
    except ConfigError as error:
        raise AssertionError(str(error)) from None


# What people type: up to a pipe, another command, or words about it.
_TYPED = re.compile(r"^(?:\$ )?(?:sudo (?:-u \S+ )?)?tidegate (.*)$", re.MULTILINE)
_END = re.compile(r"\s(?:[|;>&]|&&|2>|#)|\s{3,}#")


# In a sentence a verb may stand without what it needs; its options are right all the same.
_SAID = re.compile(r"`(?:sudo )?tidegate ((?:[a-z]+ )+--[^`:]*)`")


def typed() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        text = path.read_text()
        lines = [line for block in _CODE.findall(text) for line in _TYPED.findall(block)]
        for line in [*lines, *_SAID.findall(_CODE.sub("", text))]:
            command = _END.split(f"{line} ")[0].strip().replace("PORT", "/dev/ttyUSB0")
            yield str(path.relative_to(REPOSITORY)), command


def assert_parsed(command: str) -> None:
    code: object = 0
    try:
        whole_parser().parse_args(shlex.split(command))
    except SystemExit as end:  # --help as well
        code = end.code
    assert code == 0, command


@for_each("typed", list(dict.fromkeys(typed())))
def test_what_stands_there_to_be_typed_can_be(named_command: tuple[str, str]) -> None:
    name, command = named_command
    assert name
    assert_parsed(command)


def test_a_command_that_is_none_would_be_found() -> None:
    assert len(list(typed())) > 30
    for command in ("status --jsn", "clinets", "serial release"):
        with pytest.raises(AssertionError):
            assert_parsed(command)
