"""Looks for words that the glossary does without: `.venv/bin/python .ci/words.py [FILE ...]`.

codespell reads the prose of each file, with the list in `.ci/words.txt` (and its own of
misspellings): Markdown without code, quotations and comments, and the comments and docstrings of
Python. A paragraph is one line of what it reads, so that words are found together over the end of a
line; the number that it names is that of the paragraph's first line.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
WORDS = ROOT / ".ci" / "words.txt"
TREES = ("docs", "firmware", "gateway", "hil", "spark_ingest")
CODESPELL_FOUND = 65

Paragraphs = Iterator[tuple[int, str]]

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_CODE = re.compile(r"`[^`]*`")


def paragraphs(path: Path, text: str) -> Paragraphs:
    """The number of its first line, and its prose."""
    return _of_python(text) if path.suffix == ".py" else _of_markdown(text)


def _of_markdown(text: str) -> Paragraphs:
    markdown = MarkdownIt("commonmark").enable("table")
    quotes = 0
    for token in markdown.parse(text):
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "inline" and token.map is not None and not quotes:
            pieces = [
                " " if each.type in ("softbreak", "hardbreak", "code_inline") else each.content
                for each in token.children or ()
                if each.type != "html_inline"
            ]
            yield token.map[0] + 1, _QUOTED.sub(" ", "".join(pieces))


def _of_python(text: str) -> Paragraphs:
    for node in ast.walk(ast.parse(text)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            string = node.body[0]
            lines = (ast.get_docstring(node) or "").split("\n")
            yield from _joined(list(enumerate(lines, string.lineno)))
    comments = [
        (token.start[0], token.string.lstrip("#").strip())
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _joined(comments)


def _joined(lines: Sequence[tuple[int, str]]) -> Paragraphs:
    """Lines that follow each other are one paragraph; an empty one ends it."""
    first, last, pieces = 0, 0, list[str]()
    for number, line in [*lines, (sys.maxsize, "")]:
        if pieces and (number != last + 1 or not line.strip()):
            yield first, _CODE.sub(" ", " ".join(pieces))
            pieces = []
        if line.strip():
            first = number if not pieces else first
            pieces.append(line.strip())
        last = number


def prose(path: Path) -> str:
    """As many lines as the file has, each paragraph on its first one."""
    text = path.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 2)
    for number, paragraph in paragraphs(path, text):
        lines[number - 1] += f"{' '.join(paragraph.split())} "
    return "\n".join(lines)


def findings(files: Sequence[Path], root: Path | None = None) -> list[str]:
    """What codespell says of them, by their paths below `root`, or else the repository."""
    names = [line.split("->")[0] for line in WORDS.read_text(encoding="utf-8").splitlines()]
    phrases = "|".join(re.escape(name) for name in names if " " in name)
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            copy = Path(folder, path.relative_to(root or ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(prose(path), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "codespell_lib", "--disable-colors", "--quiet-level", "3"),
            *("--config", "/dev/null", "--dictionary", "-", "--dictionary", str(WORDS)),
            *("--regex", rf"(?i:\b(?:{phrases})\b)|[\w\-'’]+", "."),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, CODESPELL_FOUND) or done.stderr.strip():
        raise SystemExit(f"codespell failed: {done.stderr.strip() or done.returncode}")
    return sorted(line.removeprefix("./") for line in done.stdout.splitlines())


def sources() -> list[Path]:
    found = [path for tree in TREES for path in (ROOT / tree).rglob("*") if _is_prose(path)]
    return sorted([*found, *ROOT.glob("*.md")])


def _is_prose(path: Path) -> bool:
    made = ("compiled_modules", "__pycache__", "node_modules")
    return path.suffix in (".py", ".md") and not any(part in made for part in path.parts)


def main(words: Sequence[str]) -> int:
    found = findings([Path(word).resolve() for word in words] or sources())
    if found:
        print("\n".join(found))
        print("other words are in .ci/words.txt and docs/glossary.md", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
