"""The fenced blocks of a document, each with what the comments before it say of it.

A comment is invisible where the document is read. Before a block may stand

    <!-- block: KIND, REASON -->    another kind than that of its tag, or why it is not run
    <!-- before:                    what is run first and not shown, in the block's own language
    tidegate simulate --sensors 2 --seconds 2
    -->

and anywhere in a page `<!-- page: STATE -->`, one of root.STATES: what there is before its first
block.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<tag>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_COMMENTS = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)+\Z", re.DOTALL)
_COMMENT = re.compile(r"<!-- (block|before):\s*(.*?)\s*-->", re.DOTALL)
_PAGE = re.compile(r"<!-- page: (\w+) -->")
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    page: str  # from the root of the repository
    line: int
    tag: str
    text: str
    kind: str = ""  # as its comment has it, else that of the tag counts
    reason: str = ""
    before: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def documents() -> list[Path]:
    docs = REPOSITORY / "docs"
    return [
        *sorted(REPOSITORY.glob("*.md")),
        *sorted(docs.glob("*.md")),
        *sorted(docs.glob("*/*.md")),
    ]


def all_blocks() -> list[Block]:
    return [block for path in documents() for block in blocks_of(path)]


def blocks_of(path: Path) -> list[Block]:
    page = str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else path.name
    return list(blocks_in(path.read_text(), page))


def blocks_in(text: str, page: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        said = {"block": "", "before": ""}
        if comments := _COMMENTS.search(text[: found.start()]):
            said |= dict(_COMMENT.findall(comments[0]))
        kind, _, reason = said["block"].partition(",")
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start()) + 1,
            tag=found["tag"].strip(),
            text=textwrap.dedent(found["text"]),
            kind=kind.strip(),
            reason=" ".join(reason.split()),
            before=said["before"],
        )


def state_of(text: str) -> str:
    """What there is before the first block of the page."""
    found = _PAGE.search(text)
    return found[1] if found else "running"


def spans_in(text: str) -> list[str]:
    """What stands between backticks in a sentence or a table."""
    return _SPAN.findall(_FENCE.sub("", text))
