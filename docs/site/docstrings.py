"""Shows docstrings, which are plain text with code in backticks, as reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CODE = re.compile(r"(`[^`]+`)")
_ITEM = re.compile(r"\s*(-|\d+\.) ")
_ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")
_QUOTED = re.compile(r"(?<=: )'([^']+)'")
# What would begin an emphasis, a substitution or a reference.
_MARKUP = re.compile(r"([*|\\]|_\b)")


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _process(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = as_rest(lines)


def _skip(_app: Any, what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool | None:
    """Fields of dataclasses of which nothing is said: the signature has them."""
    is_field = what == "class" and repr(member) == "SLOTS_ATTR"
    return True if is_field or skip else None


def _shorten(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, call: str | None, answer: str
) -> tuple[str | None, str]:
    """Unions by their names (`autodoc_type_aliases`), and types that Sphinx left in quotes."""
    return shortened(call or "") or call, shortened(answer or "")


def shortened(signature: str) -> str:
    return _QUOTED.sub(r"\1", _ALIAS.sub(r"\1", signature))


def as_rest(lines: list[str]) -> list[str]:
    return list(_converted(lines))


def _converted(lines: list[str]) -> Iterator[str]:
    """Indented paragraphs are programs; a list may follow a line without an empty one between."""
    is_code = False
    before = ""
    for line in lines:
        is_indented = line.startswith("    ")
        if is_indented and not before.strip() and not is_code:
            is_code = True
            yield from (".. code-block:: python", "")
        elif line.strip() and not is_indented:
            is_code = False
        if is_code:
            yield line
        else:
            is_first_item = (
                bool(_ITEM.match(line)) and not _ITEM.match(before) and not before.startswith(" ")
            )
            if is_first_item and before.strip():
                yield ""
            yield inline(line)
        before = line


def inline(line: str) -> str:
    pieces = _CODE.split(line)
    return "".join(
        f"`{piece}`" if _CODE.fullmatch(piece) else _MARKUP.sub(r"\\\1", piece) for piece in pieces
    )
