"""docs/messages.md: every sentence in the gateway that somebody may get to see and that no other
document explains, gathered from its sources: `python -m tests.house.messages >docs/messages.md`.

Taken is each text of three words or more that is not for those who read the code: no docstring, no
help of the command line, no SQL. What keys and metrics mean is in documents of their own.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.literals import text_of

REPOSITORY = Path(__file__).resolve().parents[2]
GATEWAY = REPOSITORY / "gateway"
EXPLAINED = ("troubleshooting.md", "flashing.md", "serial.md", "operating.md")
WORDS_MIN = 3
# By the first folder that fits.
_PARTS = {
    "app/": "The process and its service",
    "admin/http/": "The page, and programs that ask it",
    "admin/": "Alarms, health and the log",
    "cli/doctor/": "tidegate doctor",
    "cli/flash/": "tidegate flash",
    "flashing/": "tidegate flash",
    "cli/": "The other verbs of the command line",
    "config/": "The configuration",
    "core/": "Sensors and the broker, as the log has them",
    "frames/": "Sensors and the broker, as the log has them",
    "packets/": "Sensors and the broker, as the log has them",
    "host/": "The machine and its limits",
    "presence/": "What is said on MQTT",
    "storage/backup/": "Backup and restore",
    "storage/": "The journal and the state",
    "transports/serial/": "Serial lines",
    "transports/framing/": "Serial lines",
    "transports/": "The network, and the broker",
    "": "The start",
}
# What stands there is in a document of its own, or is text for other programs.
_LEFT_OUT = (
    "admin/aside.py", "admin/metrics/", "admin/numbers.py", "admin/part_numbers.py",
    "app/service/unit.py", "cli/completion/", "cli/man.py", "cli/outline.py",
    "cli/verbs.py", "config/keys.py", "config/reference.py", "config/template.py",
    "core/session/states_drawing.py", "presence/homeassistant/discovery_documents.py",
)  # fmt: skip
_FOR_CODE = {"help", "description", "epilog", "metavar", "title", "prog", "usage"}
_CALLS_FOR_CODE = {"debug", "add_parser", "compile", "execute", "executescript", "executemany"}
_NAMES_FOR_CODE = re.compile(r"\w*(EPILOG|HELP|EXAMPLE|SQL|SCHEMA|USAGE)\w*")
_NO_SENTENCE = re.compile(
    r".*(HttpOnly|script-src)|(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA|DROP|WITH|REPLACE)\b"
)
_VALUE = re.compile(r"%[-+#0-9.*]*[a-zA-Z]|\{[^{} ]*\}")
_WORD = re.compile(r"[A-Za-z]{2,}")


def plain(text: str) -> str:
    return " ".join(re.sub(r"[`\\]", "", text).split())


def messages() -> dict[str, list[str]]:
    """By part, each in the order of the alphabet."""
    explained = plain("".join((REPOSITORY / "docs" / name).read_text() for name in EXPLAINED))
    found: dict[str, set[str]] = {title: set() for title in _PARTS.values()}
    for path in sorted(GATEWAY.rglob("*.py")):
        name = str(path.relative_to(GATEWAY))
        if not name.startswith(_LEFT_OUT):
            part = next(title for start, title in _PARTS.items() if name.startswith(start))
            found[part] |= {
                text
                for text in sentences_in(path.read_text())
                if longest_piece(text) not in explained
            }
    return {title: sorted(texts, key=str.casefold) for title, texts in found.items()}


def longest_piece(text: str) -> str:
    return plain(max(text.split("..."), key=len)).strip(" :;,.()'")


def sentences_in(source: str) -> Iterator[str]:
    """With `...` for each value."""
    tree = ast.parse(source)
    skipped = {id(each) for node in ast.walk(tree) for each in _for_code(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        text = text_of(node, "...")
        if text is None:
            continue
        if isinstance(node, ast.Constant):
            text = _VALUE.sub("...", text)
        text = re.sub(r"\.{4,}", "...", " ".join(text.split()))
        if len(_WORD.findall(text)) >= WORDS_MIN and " " in text and not _NO_SENTENCE.match(text):
            yield text


def _for_code(node: ast.AST) -> Iterator[ast.AST]:
    """What in it is shown to no one, or only as a part of what is taken whole."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        yield from ast.walk(node.body[0])
    elif isinstance(node, ast.Call):
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if called in _CALLS_FOR_CODE:
            yield from ast.walk(node)
        for keyword in node.keywords:
            if keyword.arg in _FOR_CODE:
                yield from ast.walk(keyword)
    elif isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.Constant))
    elif isinstance(node, ast.AnnAssign):
        yield from ast.walk(node.annotation)
    elif isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and _NAMES_FOR_CODE.fullmatch(target.id)
        for target in node.targets
    ):
        yield from ast.walk(node.value)


def document() -> str:
    lines = [
        "# Every other message",
        "",
        "<!-- Made by `python -m tests.house.messages` from the sources of the gateway. -->",
        "",
        "What Tidegate says and [troubleshooting.md](troubleshooting.md) does not explain.",
        "`...` stands for a name or a number; a line of the log may be put together of several.",
        "What keys mean is in [configuration.md](configuration.md).",
    ]
    for title, texts in messages().items():
        if texts:
            lines += ["", f"## {title}", "", *(f"- {_code(text)}" for text in texts)]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """As Markdown shows it, whatever is in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    sys.stdout.write(document())
