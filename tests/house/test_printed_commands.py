"""What is printed as something to type can be typed: its programs are there, the shell and our own
parser take it, and it asks for nothing that only some installations have.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gateway.cli.doctor.commands import PACKAGES
from gateway.cli.parsing import whole_parser
from gateway.cli.verbs import VERBS
from tests.house.printed_commands import EVERYWHERE, OTHERS, Printed, printed_in

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("gateway", "hil", "spark_ingest", "firmware")
PROGRAMS = EVERYWHERE | OTHERS | frozenset(PACKAGES)
# The two that know how this was installed.
INSTALLERS = ("gateway/host/installation.py", "spark_ingest/installing.py")
# Values that the parser looks at, in place of those that the source has as X.
_VALUES = {"release": "/dev/ttyUSB0", "--only": "disk"}


@cache
def _printed() -> tuple[Printed, ...]:
    """Read once, by the first test: to gather them takes seconds."""
    folders = ((REPOSITORY / folder) for folder in FOLDERS)
    return tuple(one for folder in folders for one in printed_in(REPOSITORY, folder, PROGRAMS))


def test_there_are_some() -> None:
    assert len(_printed()) > 120
    assert {each.where.split("/")[0] for each in _printed()} == set(FOLDERS)


def test_the_shell_takes_each() -> None:
    refused = {each: said for each in _printed() if (said := _refusal_of_the_shell(each))}
    assert refused == {}


def _refusal_of_the_shell(printed: Printed) -> str:
    if printed.where.startswith(("gateway/host/installation.py", "hil/")):
        return ""  # parts put together there, and held by tests of their own; words for us
    command = printed.command.removesuffix("&&").removesuffix(" ...").rstrip(")")
    done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False)
    return f"{done.returncode}: {done.stderr!r}" if done.returncode else ""


def test_all_programs_are_on_every_debian_or_brought() -> None:
    missing = {each: words for each in _printed() if (words := _unknown_programs(each))}
    assert missing == {}


def _unknown_programs(printed: Printed) -> list[str]:
    found = []
    if printed.where.startswith(("gateway/", "spark_ingest/")):
        for part in re.split(r"\s*(?:&&|\|\|?|;)\s*", printed.command):
            words = re.sub(r"^sudo (?:-u \S+ ?)?", "", part).split()
            if words and not re.match(r"['\"X$(<>/]", words[0]) and words[0] not in PROGRAMS:
                found.append(words[0])
    return found


def _ours() -> list[Printed]:
    verbs = {verb.name for verb in VERBS}
    found = []
    for each in _printed():
        words = each.command.removeprefix("sudo ").split()
        if words[0] == "tidegate" and words[1] in verbs:  # an error has a colon behind its verb
            found.append(each)
    return found


def test_our_own_are_taken_by_our_parser() -> None:
    ours = _ours()
    assert len(ours) > 40
    refused = {each: ended for each in ours if (ended := _refused_by_the_parser(each)) is not None}
    assert refused == {}


def _refused_by_the_parser(printed: Printed) -> int | str | None:
    text = re.split(r" [|>]|;|&&", printed.command.removeprefix("sudo "))[0]
    words = shlex.split(text)[1:]
    for at, word in enumerate(words[1:], 1):
        if word == "X":
            words[at] = _VALUES.get(words[at - 1], "X")
    if words in (["import"], ["init"], ["backup"], ["restore"]):
        return None  # named, and not to be typed so
    try:
        whole_parser().parse_args(words)
    except SystemExit as ended:
        return ended.code
    return None


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_place_knows_how_this_was_installed(folder: str) -> None:
    found = []
    for path in sorted((REPOSITORY / folder).rglob("*.py")):
        name = str(path.relative_to(REPOSITORY))
        text = path.read_text(encoding="utf-8")
        if name not in INSTALLERS and re.search(r"pipx? install|uv tool|\$USER\b|tidegate\[", text):
            found.append(name)
    assert found == []
