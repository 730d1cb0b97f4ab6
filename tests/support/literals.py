"""Texts in the sources of a program."""

from __future__ import annotations

import ast


def text_of(node: ast.AST | None, value: str) -> str | None:
    """What such a literal says, with `value` for each value in it; None if it is no text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else value for part in node.values
        )
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None
