"""`tidegate restore`: what a backup holds, back to its place; the gateway must not be running."""

import argparse
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import USUAL_PATH, add_source_arguments, in_time
from gateway.config import ConfigError, Configuration, Settings, load
from gateway.host.causes import brief
from gateway.host.supervisor import how_to
from gateway.storage.backup.archive import BackupError
from gateway.storage.backup.restore import (
    Contents,
    Restored,
    Target,
    look,
    restore,
)
from gateway.storage.state.errors import StateError

SCHEMA = "tidegate.restore/1"
EPILOG = """
What is there is kept: the state in before-restore of the state folder, files
of the configuration with .before-restore behind their names.

Readings that waited when the backup was taken go to the broker again, with
their old delivery tags; consumers drop those that they have. --without-readings
leaves them out.

--force, and only that: replaces a state that is there; puts one into a folder
with other files; writes files that the configuration names outside of its own
folder; takes files of users that this gateway does not have; restores though
the clock is before the backup. What it did is said at the end.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument("file", metavar="FILE", type=Path, help="the backup")
    parser.add_argument(
        "--list", action="store_true", help="say what it holds and whether it is whole; no more"
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--without-config", action="store_true", help="leave the configuration here as it is"
    )
    parser.add_argument(
        "--without-readings",
        action="store_true",
        help="leave out readings that wait for the broker",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a state that is there, write files outside of the configuration's folder, "
        "and what else is named below",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def run(arguments: argparse.Namespace) -> int:
    try:
        if arguments.list:
            _print_contents(look(arguments.file), is_json=arguments.json)
            return ExitCode.OK
        return _restore(arguments)
    except ConfigError as error:
        print_error(str(error))
        return ExitCode.CONFIGURATION
    except BackupError as error:
        return _fail(str(error), ExitCode.FAILURE)
    except StateError as error:
        return _fail(str(error.strerror), ExitCode.UNAVAILABLE)
    except PermissionError as error:
        message = f"{error.filename}: no permission; run this with sudo"
        return _fail(message, ExitCode.PERMISSION)
    except OSError as error:
        where = error.filename or arguments.file
        return _fail(f"{where}: {brief(error)}", ExitCode.CANNOT_CREATE)


def _restore(arguments: argparse.Namespace) -> int:
    found = look(arguments.file)
    plan = _planned(arguments, found)
    target = Target(
        state_dir=plan.settings.gateway.state_dir,
        config=plan.config,
        is_forced=arguments.force,
        with_readings=not arguments.without_readings,
    )
    restored = restore(arguments.file, found, target, plan.settings)
    _print_restored(restored, target, is_json=arguments.json)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Plan:
    config: Path | None
    settings: Settings


def _planned(arguments: argparse.Namespace, found: Contents) -> _Plan:
    """Where it goes, by the configuration that will be in force."""
    path = arguments.config or USUAL_PATH
    if arguments.without_config:
        there = path if path.exists() else None
        return _Plan(None, _settings(there, arguments))
    if found.config is None:
        return _Plan(None, _settings(None, arguments))
    try:
        return _Plan(path, _settings(path, arguments, found.config))
    except ConfigError as error:
        print_error("the configuration in the backup is not right for this release:")
        print_error(str(error).replace(str(path), "config.toml"))
        raise BackupError(
            "nothing was changed; --without-config restores all but the configuration"
        ) from None


def _settings(
    path: Path | None, arguments: argparse.Namespace, content: bytes | None = None
) -> Settings:
    def read() -> Configuration:
        overrides = arguments.overrides
        return load(path, environment=os.environ, overrides=overrides, content=content)

    return in_time(read).settings


def _print_contents(found: Contents, *, is_json: bool) -> None:
    head = found.head
    if is_json:
        print_line(json.dumps({"schema": SCHEMA, **_as_json(found)}, indent=2))
        return
    files = ", ".join(found.files) or "none"
    state = "none" if found.database_bytes is None else f"{found.database_bytes} bytes"
    for name, value in (
        ("gateway", head.gateway),
        ("taken", f"{_time(head.taken_at)}, by Tidegate {head.release}, format {head.format}"),
        ("config", "none" if found.config is None else f"{len(found.config)} bytes"),
        ("files", files + (", with secrets" if head.has_secrets else "")),
        ("state", state),
        ("journal", f"{found.segments} segments, {found.segment_bytes} bytes"),
        ("whole", "yes"),
    ):
        print_line(f"{name:<12}{value}")


def _print_restored(restored: Restored, target: Target, *, is_json: bool) -> None:
    plan = restored.plan
    if is_json:
        document = {
            "state_dir": str(target.state_dir),
            "config_file": None if target.config is None else str(target.config),
            "missing": {key: str(path) for key, path in plan.missing},
            "kept": {key: str(path) for key, path in plan.kept},
            "outside": {key: str(path) for key, path in plan.outside},
            "forced": plan.forced,
        }
        print_line(
            json.dumps({"schema": SCHEMA, **_as_json(restored.contents), **document}, indent=2)
        )
        return
    head = restored.contents.head
    print_line(f"{target.state_dir}: the state of {head.gateway} of {_time(head.taken_at)}")
    if target.config is not None:
        print_line(f"{target.config}: its configuration")
    for what in plan.forced:
        print_error(f"--force: {what}")
    for key, path in plan.outside:
        print_error(
            f"{key} {path} lies outside of the configuration's folder and was not written; "
            "--force writes it"
        )
    for key, path in plan.kept:
        print_error(f"{key} {path} is another file here and stays; --force replaces it")
    for key, path in plan.missing:
        print_error(
            f"{key} {path} is not in the backup and not here: put it there before the start"
        )
    print_error(f"next: tidegate doctor; then start the gateway:  {how_to('start')}")


def _as_json(found: Contents) -> dict[str, Any]:
    head = found.head
    return {
        "format": head.format,
        "release": head.release,
        "gateway": head.gateway,
        "taken_at": _time(head.taken_at),
        "has_secrets": head.has_secrets,
        "has_config": found.config is not None,
        "files": sorted(found.files),
        "database_bytes": found.database_bytes,
        "segments": found.segments,
        "segment_bytes": found.segment_bytes,
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fail(message: str, code: ExitCode) -> int:
    print_error(f"tidegate restore: {message}")
    return code
