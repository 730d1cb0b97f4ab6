"""`tidegate run` up to the daemon: which configuration it would serve, and when it refuses to."""

import argparse
from pathlib import Path

import pytest

from gateway.cli.run import add_arguments, configuration_for
from gateway.config import Configuration
from tests.cli.tidegate import tidegate


def configured(*arguments: str, usual_path: Path, **environment: str) -> Configuration:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return configuration_for(parser.parse_args(arguments), environment, usual_path)


def test_the_named_file_is_read_and_not_the_usual_one(tmp_path: Path) -> None:
    usual, named = tmp_path / "usual.toml", tmp_path / "named.toml"
    usual.write_text("gateway.id = 1")
    named.write_text("gateway.id = 2")
    configuration = configured("--config", str(named), usual_path=usual)
    assert configuration.settings.gateway.id == 2
    assert configuration.warnings == ()


def test_the_usual_file_is_read_when_none_is_named(tmp_path: Path) -> None:
    usual = tmp_path / "usual.toml"
    usual.write_text("gateway.id = 7")
    configuration = configured(usual_path=usual)
    assert configuration.settings.gateway.id == 7
    assert configuration.origin_of("gateway.id") == f"{usual}:1:14"
    assert configuration.warnings == ()


def test_without_any_file_there_are_defaults_and_a_notice(tmp_path: Path) -> None:
    usual = tmp_path / "usual.toml"
    configuration = configured(usual_path=usual)
    assert configuration.settings.gateway.id == 1
    assert configuration.warnings == (
        f"no --config and no {usual}: running on defaults; `tidegate init` writes a file",
    )


def test_options_for_the_log_go_before_all_others(tmp_path: Path) -> None:
    configuration = configured(
        "--set",
        "log.level=error",
        "--log-level",
        "debug",
        "--log-format",
        "json",
        usual_path=tmp_path / "usual.toml",
        TIDEGATE_LOG__LEVEL="warning",
    )
    assert configuration.settings.log.level == "debug"
    assert configuration.settings.log.format == "json"
    assert configuration.origin_of("log.level") == "command line"


def test_options_may_repeat(tmp_path: Path) -> None:
    options = ("--set", "gateway.id=3", "--set", "upstream.url=mqtts://broker")
    settings = configured(*options, usual_path=tmp_path / "usual.toml").settings
    assert (settings.gateway.id, settings.upstream.host) == (3, "broker")


@pytest.mark.parametrize(
    ("arguments", "text", "lines"),
    [
        (
            ("--config", "c.toml"),
            "[gateway]\nid = 300\n",
            ["c.toml:2:6: gateway.id: expected a whole number from 0 to 255, got 300"],
        ),
        (
            ("--config", "c.toml", "--set", "gateway.idd=3"),
            "",
            ["command line: gateway.idd: unknown key, did you mean gateway.id?"],
        ),
        (
            ("--config", "none.toml"),
            "",
            ["none.toml: cannot be read: No such file or directory"],
        ),
        (
            ("--config", "c.toml"),
            "[log",
            ["c.toml:1:5: not valid TOML: Expected ']' at the end of a table declaration"],
        ),
    ],
)
def test_a_wrong_configuration_is_refused_before_anything_starts(
    arguments: tuple[str, ...], text: str, lines: list[str], tmp_path: Path
) -> None:
    (tmp_path / "c.toml").write_text(text)
    done = tidegate("run", "--no-wait", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines() == lines
