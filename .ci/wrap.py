"""Wraps the prose of the documents at 100 columns: `.venv/bin/python .ci/wrap.py [--check] [FILE
...]`.

Without FILE: README, CHANGELOG, CONTRIBUTING and all below docs/. Only paragraphs change: code
blocks, tables, headings and HTML comments stay as they are, and so do documents that are made by a
program (their head says `<!-- Made`) and what stands between the markers `NAME:begin` and
`NAME:end`. A code span is not broken. What a page shows must be the same before and after, or
nothing is written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 100
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/guarantees/promises.txt")
EXIT_STALE, EXIT_FAILURE = 1, 2

_MADE = re.compile(r"<!-- Made ")
_MARKED = re.compile(r"<!-- ([\w-]+):begin -->.*?<!-- \1:end -->", re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_HARD_BREAK = re.compile(r"(?: {2}|\\)$", re.MULTILINE)
# At the begin of a line it would be something else than prose.
_BLOCK = re.compile(r"(?:[-+*=#>|:<~]|```|\d+[.)]$|\[[^\]]*\]:)")
_GLUE = "\0"


class WrapError(Exception):
    """Wrapped, the page would show something else."""


def wrapped(text: str) -> str:
    if any(_MADE.match(line) for line in text.splitlines()[:5]):
        return text
    markdown = MarkdownIt("commonmark").enable("table")
    lines = text.split("\n")
    kept = set(_kept_lines(text))
    # From the end, so that the numbers of lines before stay right.
    for first, end, content in reversed(list(_paragraphs(markdown, text))):
        if not kept & set(range(first, end)) and not _HARD_BREAK.search(content.rstrip()):
            lines[first:end] = _filled(lines[first], content)
    result = "\n".join(lines)
    if _shown(markdown, result) != _shown(markdown, text):
        raise WrapError("wrapped, it would show something else")
    return result


def _paragraphs(markdown: MarkdownIt, text: str) -> Iterator[tuple[int, int, str]]:
    tokens = markdown.parse(text)
    for opening, inline in pairwise(tokens):
        if opening.type == "paragraph_open" and opening.map is not None:
            yield opening.map[0], opening.map[1], inline.content


def _kept_lines(text: str) -> Iterator[int]:
    for marked in _MARKED.finditer(text):
        begin = text.count("\n", 0, marked.start())
        yield from range(begin, begin + marked[0].count("\n") + 1)


def _filled(first_line: str, content: str) -> list[str]:
    """The first line keeps what is before its text, such as a bullet; the others are indented."""
    start = first_line.rstrip().rfind(content.split("\n")[0].rstrip())
    before = first_line[:start]
    indent = re.sub(r"[^>\s]", " ", before)
    glued = _SPAN.sub(lambda span: " ".join(span[0].split()).replace(" ", _GLUE), content)
    words: list[str] = []
    for word in glued.split():
        if words and _BLOCK.match(word):
            words[-1] += _GLUE + word
        else:
            words.append(word)
    lines = [before + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(indent + word)
    return [line.replace(_GLUE, " ") for line in lines]


def _shown(markdown: MarkdownIt, text: str) -> str:
    return " ".join(markdown.render(text).split())


def documents() -> list[Path]:
    return [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=".ci/wrap.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, name what would be")
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    asked = parser.parse_args(words)
    code = 0
    for path in asked.files or documents():
        try:
            text = path.read_text(encoding="utf-8")
            result = wrapped(text)
        except (OSError, UnicodeDecodeError, WrapError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            code = EXIT_FAILURE
            continue
        if result == text:
            continue
        if asked.check:
            print(f"{path}: not wrapped; type  .venv/bin/python .ci/wrap.py", file=sys.stderr)
            code = max(code, EXIT_STALE)
        else:
            path.write_text(result, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
