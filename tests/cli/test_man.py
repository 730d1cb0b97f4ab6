"""The manual page: from the words of --help, and as man(1) likes it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.app.exit_codes import MEANING
from gateway.cli.outline import outline
from gateway.cli.parsing import whole_parser
from gateway.cli.verbs import VERBS
from tests.cli.tidegate import tidegate

PROGRAM = outline(whole_parser())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    environment = {"SOURCE_DATE_EPOCH": "1790000000"}
    page = folder / "tidegate.1"
    page.write_text(tidegate("man", folder=folder, environment=environment).stdout)
    return page


def shown(source: Path) -> str:
    """As plain text; a terminal would show the same words."""
    if shutil.which("groff") is None:
        pytest.skip("not run: groff is missing")
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=100n", str(source)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == ""
    return " ".join(done.stdout.replace("−", "-").replace("‐", "-").split())


def test_every_verb_action_and_option_is_in_it(source: Path) -> None:
    text = shown(source)
    for command in PROGRAM.walk():
        assert " ".join(command.help[1:].split()) in text
        for argument in command.arguments:
            if "--help" not in argument.names:
                assert " ".join(argument.help.split()) in text, argument
    assert {" ".join(command.path) for command in PROGRAM.commands} == {
        f"tidegate {verb.name}" for verb in VERBS
    }


def test_its_sections_are_those_of_a_manual_page(source: Path) -> None:
    headings = [line[4:] for line in source.read_text().splitlines() if line.startswith(".SH ")]
    assert headings == [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "VERBS",
        "FILES",
        "ENVIRONMENT",
        "SIGNALS",
        "EXIT STATUS",
        "SEE ALSO",
    ]
    assert source.read_text().startswith('.TH TIDEGATE 1 "2026-09-21" "Tidegate ')
    assert "tidegate - MQTT-SN gateway" in shown(source)
    for code, meaning in MEANING.items():
        assert f"{int(code)} {meaning}" in shown(source)


def test_examples_stand_as_they_are_typed(source: Path) -> None:
    text = source.read_text()
    assert (
        "\n  tidegate run \\-\\-config /etc/tidegate/config.toml \\-\\-log\\-level debug\n" in text
    )
    bare = [line for line in text.splitlines() if line.startswith((".", "'")) and len(line) > 1]
    requests = {line.split(" ")[0] for line in bare}
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".nf", ".fi", ".sp", ".nh", ".ad"}
    known |= {".RS", ".RE"}
    assert requests <= known
