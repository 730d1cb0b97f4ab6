"""What can only be run with a board or another machine: its commands are tried in form, and each
line that it shows must be one that the sources can print.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.docs.blocks import REPOSITORY, Block
from tests.docs.commands import faults_of_script, script_of
from tests.docs.files import python_fault
from tests.docs.kinds import Kind, kind_of
from tests.support.literals import text_of

_SOURCES = ("gateway", "firmware", "spark_ingest")
_EXAMPLES = {"greenhouse", "micro:bit"}
_WORD = re.compile(r"(?<![\w./-])[a-z]{3,}(?![\w/-])")
_VALUE = re.compile(r"%[-\d.]*[a-z]|\0")


def faults_of(block: Block) -> Iterator[str]:
    if kind_of(block) is Kind.SAID:
        for line in shown_in(block.text):
            yield from not_printed(line)
        return
    if block.tag == "python":
        if fault := python_fault(block.text):
            yield fault
        return
    script = script_of(block)
    yield from faults_of_script(script)
    if script != block.text:
        for line in shown_in(block.text):
            yield from not_printed(line)


def shown_in(text: str) -> list[str]:
    typed = re.sub(r"^\$ .*(?:\\\n.*)*\n", "", text, flags=re.MULTILINE)
    return [" ".join(line.split()) for line in typed.splitlines() if line.strip(" .")]


def not_printed(line: str) -> Iterator[str]:
    """Words of it that stand in no text of the sources as they stand here, between the values."""
    covered = bytearray(len(line))
    for piece in printed():
        at = line.find(piece)
        while at >= 0:
            covered[at : at + len(piece)] = b"\1" * len(piece)
            at = line.find(piece, at + 1)
    for word in _WORD.finditer(line):
        if not all(covered[word.start() : word.end()]):
            yield f"no source prints {word[0]!r} of: {line}"


@cache
def printed() -> frozenset[str]:
    """The pieces of all texts between the values in them, and the names of boards and examples."""
    boards = [*(REPOSITORY / "firmware" / "boards").glob("*.toml")]
    named = {piece for path in boards for piece in re.findall(r'"([^"]+)"', path.read_text())}
    pieces = (
        " ".join(line.split())
        for source in _SOURCES
        for path in (REPOSITORY / source).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for piece in _VALUE.split(text_of(node, "\0") or "")
        for line in piece.splitlines()
        if _WORD.search(line)
    )
    return frozenset({*_EXAMPLES, *named, *(path.stem for path in boards), *pieces})
