"""Blocks that are files: each is given to what reads such a file, and what that says is the fault.

Where a program is missing, Skipped says which; nothing passes that was not looked at.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from firmware.app.given import load_secrets, settings_of
from gateway.config import ConfigError, load
from gateway.flashing.errors import FlashError
from gateway.flashing.kinds import read_kinds
from hil.boards import inventory
from hil.rig.mosquitto import BrokerError, Mosquitto
from hil.scenarios import scenario
from hil.scenarios.mistakes import MistakesError
from spark_ingest.config import ConfigError as IngestError
from spark_ingest.config import load as load_ingest
from tests.docs.blocks import REPOSITORY, Block
from tests.docs.kinds import Kind

PROGRAM_S_MAX = 30
_DOCS = REPOSITORY / ".venv" / "docs"
DOCS_PROGRAMS = str(_DOCS / "bin")


class SkippedError(Exception):
    """It cannot be tried on this machine."""


def fault_of(block: Block, kind: Kind) -> str | None:
    """What is wrong with it. Raises SkippedError."""
    with tempfile.TemporaryDirectory() as folder:
        return _READERS[kind](block, Path(folder))


def _gateway(block: Block, folder: Path) -> str | None:
    file = folder / "config.toml"
    file.write_text(block.text)
    try:
        load(file, environment={}, overrides=())
    except ConfigError as error:
        return str(error)
    return None


def _ingest(block: Block, folder: Path) -> str | None:
    file = folder / "ingest.toml"
    file.write_text(block.text)
    try:
        load_ingest(file, ["lake.path=lake"], collects=False)
    except IngestError as error:
        return str(error)
    return None


def _hil(read: Callable[[Path], object]) -> Callable[[Block, Path], str | None]:
    def reader(block: Block, folder: Path) -> str | None:
        file = folder / "mine.toml"
        file.write_text(block.text)
        try:
            read(file)
        except MistakesError as error:
            return str(error)
        return None

    return reader


def _board(block: Block, folder: Path) -> str | None:
    (folder / "mine.toml").write_text(block.text)
    try:
        read_kinds(folder)
    except FlashError as error:
        return str(error)
    return None


def _settings(block: Block, _folder: Path) -> str | None:
    settings = settings_of(json.loads(block.text), {})
    return "; ".join(settings.problems) or (None if settings.is_usable else "no node can use it")


class _OneFile:
    """As much of a node's file system as its secrets need."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, _name: str, mode: str) -> object:
        return self._path.open(mode)


def _secrets(block: Block, folder: Path) -> str | None:
    shown = re.sub(r'"\d+ hexadecimal digits[^"]*"', '"' + "5a" * 32 + '"', block.text)
    (folder / "secrets.json").write_text(shown)
    settings = settings_of({"id": "one", "gateways": [["host", 1883]]}, {})
    load_secrets(_OneFile(folder / "secrets.json"), settings)  # type: ignore[arg-type]
    return "; ".join(settings.problems) or None


def _mosquitto(block: Block, folder: Path) -> str | None:
    """Each file that it names is there, made by `before` in that folder if need be."""
    lines = [line for line in block.text.splitlines() if not line.startswith("listener")]
    return _started(lines, folder)


def _acl(block: Block, folder: Path) -> str | None:
    file = folder / "acl"
    file.write_text(block.text)
    file.chmod(0o644)
    return _started([f"acl_file {file}"], folder)


def _started(lines: list[str], folder: Path) -> str | None:
    folder.chmod(0o755)
    try:
        with Mosquitto(lines):
            return None
    except BrokerError as error:
        if "not installed" in str(error):
            raise SkippedError(str(error)) from None
        return str(error)


def _unit(block: Block, folder: Path) -> str | None:
    file = folder / (_name_of(block) or "tidegate.service")
    # Only what is installed may be started by a unit.
    file.write_text(re.sub(r"^(Exec\w+=)\S+", r"\1/bin/true", block.text, flags=re.MULTILINE))
    if not block.text.startswith("[Unit]"):
        return None if re.match(r"\[\w+\]\n", block.text) else "no section at its begin"
    return run("systemd-analyze", "verify", str(file))


def _name_of(block: Block) -> str:
    return (
        block.page.rsplit("/", 1)[-1]
        if block.page.endswith((".service", ".socket", ".timer"))
        else ""
    )


def _prometheus(block: Block, folder: Path) -> str | None:
    file = folder / "prometheus.yml"
    file.write_text(block.text)
    verb = "rules" if re.search(r"^groups:", block.text, re.MULTILINE) else "config"
    return run("promtool", "check", verb, str(file))


def expression_fault(expression: str) -> str | None:
    """Of PromQL. Raises SkippedError."""
    rule = {"groups": [{"name": "one", "rules": [{"alert": "One", "expr": expression}]}]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rules.yml"
        file.write_text(json.dumps(rule))
        return run("promtool", "check", "rules", str(file))


def metrics_fault(exposed: str) -> str | None:
    """Of what /metrics says. Raises SkippedError."""
    return run("promtool", "check", "metrics", given=exposed)


def run(program: str, *arguments: str, given: str = "") -> str | None:
    """What a program complains of. Raises SkippedError."""
    ran = subprocess.run(
        [path_of(program), *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S_MAX,
        env={**os.environ, "LD_LIBRARY_PATH": str(_DOCS / "lib")},
    )
    return None if ran.returncode == 0 else (ran.stdout + ran.stderr).strip()


def path_of(program: str) -> str:
    """Of one that make test brings. Raises SkippedError where it is not here."""
    path = shutil.which(program) or shutil.which(program, path=DOCS_PROGRAMS)
    if path is None:
        raise SkippedError(f"{program} is not installed (make test brings it, .ci/setup-docs.sh)")
    return path


def _compose(block: Block, _folder: Path) -> str | None:
    read = _yaml_of(block)
    if isinstance(read, str):
        return read
    services = read.get("services")
    if not isinstance(services, dict) or not services:
        return "no services"
    lacking = [name for name, one in services.items() if not {"image", "build"} & set(one)]
    return f"no image: {', '.join(lacking)}" if lacking else None


def _yaml(block: Block, _folder: Path) -> str | None:
    read = _yaml_of(block)
    return read if isinstance(read, str) else None


def _yaml_of(block: Block) -> Mapping[str, object] | str:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise SkippedError("PyYAML is not installed") from None
    try:
        read = yaml.safe_load(block.text)
    except yaml.YAMLError as error:
        return str(error)
    return read if isinstance(read, dict) else "no mapping"


def _json(block: Block, _folder: Path) -> str | None:
    try:
        json.loads(block.text)
    except ValueError as error:
        return str(error)
    return None


def _sql(block: Block, _folder: Path) -> str | None:
    """That its parentheses and quotes end, and that it is a question."""
    text = re.sub(r"'[^']*'", "", block.text)
    if text.count("(") != text.count(")") or "'" in text:
        return "a parenthesis or a quote does not end"
    return None if re.match(r"(?i)\s*(select|with)\b", text) else "no select"


def _diff(block: Block, _folder: Path) -> str | None:
    wrong = [line for line in block.text.splitlines() if line[:1] not in ("+", "-", " ", "@")]
    return f"neither added nor removed: {wrong[0]}" if wrong else None


def _mistakes(block: Block, folder: Path) -> str | None:
    """What `tidegate check` says of a file with these mistakes at these places."""
    shown = re.findall(r"^config.toml:(\d+):(\d+): (\w+)\.(\w+): (.*)$", block.text, re.MULTILINE)
    lines = [""] * max(int(line) for line, *_ in shown)
    tables: dict[str, int] = {}
    for line, column, table, key, message in shown:
        value = re.search(r"got (\S+)$", message)
        text = f"{key} = {value[1] if value else 0}"
        # The column is that of the value where the value is wrong, else that of the key.
        pad = int(column) - (len(key) + 4 if value else 1)
        lines[int(line) - 1] = " " * pad + text
        tables.setdefault(table, int(line))
    for table, line in tables.items():
        lines[line - 2] = f"[{table}]"
    file = folder / "config.toml"
    file.write_text("\n".join(lines) + "\n")
    environment = dict(
        re.findall(r"^environment (TIDEGATE_\w+): .*got \"(\w+)\"$", block.text, re.MULTILINE)
    )
    try:
        load(file, environment=environment, overrides=())
    except ConfigError as error:
        said = str(error).replace(f"{folder}/", "")
        return None if said.split("\n") == block.text.rstrip().split("\n") else f"it says:\n{said}"
    return "these are no mistakes"


def _held(block: Block, _folder: Path) -> str | None:
    """By a test that its comment names, and that names the page."""
    test = REPOSITORY / block.reason
    if not test.is_file():
        return f"there is no {block.reason}"
    name = block.page.rsplit("/", 1)[-1]
    return None if name in test.read_text() else f"{block.reason} does not name {name}"


def _drawing(block: Block, _folder: Path) -> str | None:
    drawn = re.search(r"[│─└┌►◄▼]|--|->|^ *\S+/", block.text, re.MULTILINE)
    return None if drawn else "no drawing"


def python_fault(text: str) -> str | None:
    """Whether it is Python, `await` at its top as well."""
    try:
        compile(text, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return str(error)
    return None


_READERS: dict[Kind, Callable[[Block, Path], str | None]] = {
    Kind.GATEWAY: _gateway,
    Kind.INGEST: _ingest,
    Kind.BENCH: _hil(inventory.read),
    Kind.SCENARIO: _hil(scenario.read),
    Kind.BOARD: _board,
    Kind.SETTINGS: _settings,
    Kind.SECRETS: _secrets,
    Kind.MOSQUITTO: _mosquitto,
    Kind.ACL: _acl,
    Kind.UNIT: _unit,
    Kind.PROMETHEUS: _prometheus,
    Kind.COMPOSE: _compose,
    Kind.YAML: _yaml,
    Kind.JSON: _json,
    Kind.SQL: _sql,
    Kind.DIFF: _diff,
    Kind.MISTAKES: _mistakes,
    Kind.HELD: _held,
    Kind.DRAWING: _drawing,
    Kind.WORDS: lambda block, folder: None if block.text.strip() else "no words",
}
