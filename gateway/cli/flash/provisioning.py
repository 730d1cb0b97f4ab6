"""A node's program and settings onto a board, its enrolment, its first contact."""

import argparse
import ast
import getpass
import json
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.cli.flash.boards import Target, kind_given, kinds_of
from gateway.cli.flash.contact import start_and_wait
from gateway.cli.live import counted
from gateway.flashing.console import Console, SnippetError
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.intel_hex import SCRIPT_AT
from gateway.flashing.kinds import Kind
from gateway.flashing.placing import (
    FolderPlacing,
    MpremotePlacing,
    ReplPlacing,
    place,
)
from gateway.flashing.program import Program, make_program, program_in
from gateway.flashing.report import Report
from gateway.flashing.settings import NodeSettings, check

PASSWORD_VARIABLE = "TIDEGATE_WIFI_PASSWORD"
ENROLMENT_MODE = 0o600
READ_OCTETS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """`program`: a folder of the user's own."""

    settings: NodeSettings
    program: Path | None


def node_of(arguments: argparse.Namespace, name: str | None = None) -> Node:
    """Raises FlashError for what is missing or wrong, before a board is touched."""
    name = name or arguments.name
    if name is None:
        raise FlashError(Failure.WRONG, "say what the node is called: --name ID")
    settings = NodeSettings(
        name=name,
        topic=arguments.topic or f"sensors/{name}",
        interval_s=arguments.interval,
        gateways=tuple(arguments.gateway or ()),
        uart=arguments.uart,
        sensors=tuple(arguments.sensor or ()),
        wifi=arguments.wifi,
        password=_password(arguments) if arguments.wifi is not None else None,
        is_cabled=arguments.no_wifi,
        secrets=_json_of(arguments.secrets, is_secret=True),
        more=_json_of(arguments.settings),
    )
    check(settings)
    if arguments.key:
        from gateway.cli.flash.node_key import node_key  # seldom wanted

        secrets = {**(settings.secrets or {}), **node_key(arguments, name)}
        settings = replace(settings, secrets=secrets)
    return Node(settings, arguments.program)


def _password(arguments: argparse.Namespace) -> str:
    path = arguments.wifi_password_file
    if path is not None:
        _require_private(path)
        return _text_of(path).strip("\r\n")
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"password of {arguments.wifi}: ")
    text = f"the password of {arguments.wifi}: --wifi-password-file, or {PASSWORD_VARIABLE}"
    raise FlashError(Failure.WRONG, text)


def _json_of(path: Path | None, *, is_secret: bool = False) -> Mapping[str, Any] | None:
    if path is None:
        return None
    if is_secret:
        _require_private(path)
    try:
        found = json.loads(_text_of(path))
    except ValueError as error:
        # What is wrong in it, but nothing of what is in it.
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "its text"
        raise FlashError(Failure.WRONG, f"{path} is no JSON: {where}") from None
    if not isinstance(found, dict):
        raise FlashError(Failure.WRONG, f"{path}: expected an object, such as {{}}")
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FlashError(Failure.ABSENT, f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FlashError(Failure.WRONG, f"{path} is no text") from None


def _require_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # reading it will say why
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        text = f"{path} has secrets, and others may read it:  chmod 600 {path}"
        raise FlashError(Failure.PERMISSION, text)


def program_for(node: Node, kind: Kind) -> Program:
    """Made, with all that placing it will need. Raises FlashError before a board is touched."""
    if "device_key" in (node.settings.secrets or {}) and (node.program or kind.program == "tiny"):
        raise FlashError(Failure.WRONG, "--key: the program for this board takes no key")
    if node.program is not None:
        return program_in(node.program)
    return make_program(kind, node.settings)


def provision(
    arguments: argparse.Namespace,
    node: Node,
    program: Program,
    target: Target | None,
    report: Report,
) -> None:
    """Raises FlashError. Without a target into the folder of --into."""
    kind = target.kind if target is not None else kind_for_folder(arguments)
    _require_version(kind, target)
    count, octets = len(program.files), program.octets
    if arguments.dry_run:
        report.print_line(f"would place {counted(count, 'file')}, {octets} bytes:")
        for file in program.files:
            report.print_line(
                f"  {len(file.octets):7} /{file.path}{' (secret)' if file.is_secret else ''}"
            )
        return
    if target is None:
        sent = place(FolderPlacing(arguments.into), program.files, report)
        report.print_line(
            f"{arguments.into} has {counted(count, 'file')}, {octets} bytes; {sent} were written"
        )
        _enrol(arguments, node, kind, None, program, report)
        return
    _place_on_board(target, program, report)
    _enrol(arguments, node, kind, target, program, report)
    start_and_wait(arguments, node.settings.name, target, report)


def kind_for_folder(arguments: argparse.Namespace) -> Kind:
    kind = kind_given(arguments, kinds_of(arguments))
    if kind is None:
        raise FlashError(Failure.WRONG, "--into: say for which board, with --board")
    return kind


def _require_version(kind: Kind, target: Target | None) -> None:
    identity = None if target is None else target.identity
    if identity is not None and identity.version < kind.micropython_min:
        least = ".".join(map(str, kind.micropython_min))
        text = f"{identity} is too old, {least} is needed:  tidegate flash install --reinstall"
        raise FlashError(Failure.WRONG, text)


def _place_on_board(target: Target, program: Program, report: Report) -> None:
    count, octets = len(program.files), program.octets
    if target.port is None:
        if program.script is None:
            raise FlashError(
                Failure.ABSENT, "the board's port is needed for files: name it, --port"
            )
        report.print_line(
            "the board has its program"
        )  # it took the drive's file, which is all we know
        return
    port = target.port.device
    if target.kind.program == "tiny":
        with Console(port) as console:
            console.stop()
            if _has_script(console):
                _verify_script(console, program.script or b"", report)
                return
            sent = place(ReplPlacing(console), program.files, report)
    else:
        sent = place(MpremotePlacing(port), program.files, report)
    same = f", {count - sent} were there already" if sent < count else ""
    report.print_line(f"the board has {counted(count, 'file')}, {octets} bytes, verified{same}")


def _has_script(console: Console) -> bool:
    """Whether there is a program in the micro:bit's flash, which goes before those in files."""
    snippet = f"import machine\nprint(machine.mem8[{SCRIPT_AT}], machine.mem8[{SCRIPT_AT + 1}])"
    return console.ask(snippet).split() == ["77", "80"]


def _verify_script(console: Console, script: bytes, report: Report) -> None:
    found = b""
    for at in range(SCRIPT_AT, SCRIPT_AT + len(script), READ_OCTETS):
        snippet = (
            f"import machine\nprint(bytes(machine.mem8[i] for i in range({at},{at + READ_OCTETS})))"
        )
        try:
            found += ast.literal_eval(console.ask(snippet).strip())
        except (SnippetError, ValueError, SyntaxError):
            break  # the line damaged it: it will not be the same
        report.at("verifying", len(found), len(script))
    if not script or found[: len(script)] != script:
        text = (
            "the program in the board's flash is another one, and goes before any in files: "
            "tidegate flash --drive FOLDER  puts both there again"
        )
        raise FlashError(Failure.WRONG, text)
    report.print_line(f"the board has its program, {len(script)} bytes, verified")


def _enrol(
    arguments: argparse.Namespace,
    node: Node,
    kind: Kind,
    target: Target | None,
    program: Program,
    report: Report,
) -> None:
    """One line of JSON, without secrets, for those who keep a list of nodes."""
    identity = None if target is None else target.identity
    line = json.dumps(
        {
            "id": node.settings.name,
            "board": kind.name,
            "unique_id": identity.unique_id if identity else None,
            "micropython": ".".join(map(str, identity.version)) if identity else None,
            "topic": node.settings.topic if node.program is None else None,
            "program": program.digest[:16],
            "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )
    report.print_line(f"enrolment: {line}")
    if arguments.enrol_to is None:
        return
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(arguments.enrol_to, flags, ENROLMENT_MODE)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        text = f"{arguments.enrol_to} cannot be written: {error.strerror}"
        raise FlashError(Failure.FOLDER, text) from None
