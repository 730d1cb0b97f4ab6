"""What our programs print as something to type, gathered from their sources.

A command is the whole of a text, what is in backticks, what follows two spaces, or what follows
"with:" and the like, if it begins with a program of `PROGRAMS`, or with one behind sudo. Values in
it are replaced by X.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.literals import text_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# On every Debian of the releases that we serve, by coreutils, util-linux, systemd, procps and the
# like, or brought by the command itself. What may be missing is in gateway/cli/doctor/commands.py.
EVERYWHERE = _words(
    """apt-get awk bash cat chgrp chmod chown curl cut df dmesg echo env findmnt getent grep head id
    install journalctl kill ln ls make mkdir mount mv openssl printf python3 rm sort sysctl
    systemctl systemd-sysusers tail tee timedatectl timeout touch unset usermod"""
)
# Of a machine of its own kind, or of the user who types them: each is said where it is there.
OTHERS = _words("du export mosquitto_pub mosquitto_sub podman quota raspi-config ssh tidegate")
# Words of plain English, too: then an option, a path or a target has to follow.
AMBIGUOUS = _words("cat cut echo head id install kill make mount tail touch unset")
_ARGUMENT = re.compile(r"[-/X]|setup\b")
_BACKTICKS = re.compile(r"`([^`]+)`")
_BEHIND = re.compile(r"(?:  |: ?\n ?|^)(\S[^\n]*?)(?=  |$|\n)")
_SUDO = re.compile(r"sudo (?:-u \S+ |--preserve-env )?")


@dataclass(frozen=True, slots=True)
class Printed:
    where: str
    command: str

    @property
    def program(self) -> str:
        return _SUDO.sub("", self.command).split()[0]


def printed_in(root: Path, folder: Path, programs: frozenset[str]) -> Iterator[Printed]:
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text, line in _texts(tree):
            for command in dict.fromkeys(_commands(text)):
                printed = Printed(f"{path.relative_to(root)}:{line}", command)
                if _begins(command, programs):
                    yield printed


def _begins(command: str, programs: frozenset[str]) -> bool:
    words = _SUDO.sub("", command).split()
    if command.startswith("sudo "):
        return bool(words)
    is_program = len(words) > 1 and words[0] in programs
    return is_program and (words[0] not in AMBIGUOUS or bool(_ARGUMENT.match(words[1])))


def _commands(text: str) -> Iterator[str]:
    yield from (found.strip() for found in _BACKTICKS.findall(text))
    if "`" not in text:
        yield from (found.strip() for found in _BEHIND.findall(text))


def _texts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each literal as a whole; docstrings are for who reads the source."""
    skipped: set[int] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        match node:
            case ast.JoinedStr():
                skipped.update(map(id, node.values))
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.body and isinstance(node.body[0], ast.Expr):
                    skipped.add(id(node.body[0].value))
    for node in nodes:
        if isinstance(node, ast.expr) and id(node) not in skipped:
            text = text_of(node, "X")
            if text is not None:
                yield text, node.lineno
