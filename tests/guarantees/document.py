"""The text of the promises, with the tests of each in their place.

A line `<!-- tests of 4a -->` of the text becomes the list of the tests that are marked with one of
its numbers, a line with the name of a table that table. A promise without a test, a place without a
promise and a marker without either are errors.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROMISES = Path(__file__).with_name("promises.txt")

_PROMISE = re.compile(r"^\*\*(\w+)\. ", re.MULTILINE)
_PLACE = re.compile(r"^<!-- tests of (\w+(?: \w+)*) -->$", re.MULTILINE)
_HEAD = "<!-- Made from tests/guarantees/promises.txt by `python -m tests.guarantees`. -->"


class GuaranteeError(Exception):
    """Promises and tests do not fit together; the text says which."""


def document(text: str, tests: Mapping[str, list[str]], tables: Mapping[str, str]) -> str:
    """`tests` are those of each number."""
    promises = _PROMISE.findall(text)
    places = [number for place in _PLACE.findall(text) for number in place.split()]
    wrong = [
        *(f"promise {one} is there twice" for one in promises if promises.count(one) > 1),
        *(f"promise {one} has no place for its tests" for one in promises if one not in places),
        *(f"promise {one} has two places" for one in promises if places.count(one) > 1),
        *(f"promise {one} has no test" for one in promises if one not in tests),
        *(f"there is no promise {one}, which has a place" for one in places if one not in promises),
        *(f"there is no promise {one}: {tests[one][0]}" for one in tests if one not in promises),
    ]
    if wrong:
        raise GuaranteeError("; ".join(wrong))

    def listed(place: re.Match[str]) -> str:
        names = dict.fromkeys(name for number in place[1].split() for name in tests[number])
        return "\n".join(f"- `{name}`" for name in names)

    text = _PLACE.sub(listed, text)
    for name, table in tables.items():
        text = text.replace(f"<!-- {name} -->\n", table)
    title, rest = text.split("\n", 1)
    return f"{title}\n\n{_HEAD}\n{rest}"


def marked_tests(root: Path) -> dict[str, list[str]]:
    """By the number of the promise; in the order of files and lines."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.glob("tests/**/test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.guarantee" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in _numbers(node):
                    name = f"{path.relative_to(root)}::{node.name}"
                    found.setdefault(number, []).append(name)
    return found


def _numbers(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for each in test.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.guarantee":
            for argument in each.args:
                assert isinstance(argument, ast.Constant)
                yield str(argument.value)
