"""Shows docs/openapi.json as a page of the site: without a script, and found by its search."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docs.site.docstrings import as_rest, inline

DOCUMENT = Path(__file__).resolve().parents[1] / "openapi.json"
_METHODS = ("get", "post", "delete")
_OBJECT_DEPTH_MAX = 3

Row = tuple[str, ...]


def page() -> str:
    """All but its title."""
    document = json.loads(DOCUMENT.read_text())
    return "\n".join(_page(document)) + "\n"


def _page(document: dict[str, Any]) -> Iterator[str]:
    yield from ("As a file for programs: :download:`openapi.json </docs/openapi.json>`.", "")
    yield from _text(document["info"]["description"])
    for tag in document["tags"]:
        yield from _heading(tag["name"].capitalize(), "-")
        yield from _text(f"{tag['description']}.")
        for path, methods in document["paths"].items():
            for method in _METHODS:
                if method in methods and tag["name"] in methods[method]["tags"]:
                    yield from _operation(path, method, methods[method], document)
    yield from _heading("Schemas", "-")
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)


def _operation(
    path: str, method: str, operation: dict[str, Any], document: dict[str, Any]
) -> Iterator[str]:
    yield from _heading(f"``{method.upper()} {path}``", "^")
    yield from _text(f"{operation['summary']}.")
    yield from _text(operation.get("description", ""))
    if operation.get("security"):
        needed = [name for each in operation["security"] for name in each]
        yield from _text(f"Needs: {' and '.join(needed)}.")
    parameters = operation.get("parameters", [])
    rows = [(_code(one["name"]), _type(one["schema"]), one["description"]) for one in parameters]
    yield from _table(("Parameter", "Type", ""), rows)
    if "requestBody" in operation:
        (body,) = operation["requestBody"]["content"].values()
        yield from _table(("In the body", "Type", ""), _rows(body["schema"]))
    answers = (
        (status, *_answer(answer, document)) for status, answer in operation["responses"].items()
    )
    yield from _table(("Status", "Answer", ""), answers)


def _answer(answer: dict[str, Any], document: dict[str, Any]) -> Row:
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    ((kind, content),) = answer["content"].items()
    shown = _type(content["schema"])
    if kind != "application/json":
        shown += f", {_code(kind)}"
    return shown, answer["description"]


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f".. _schema-{name}:", "")
    yield from _heading(name, "^")
    yield from _text(schema.get("description", ""))
    yield from _table(("Field", "Type", ""), _rows(schema))


def _rows(schema: dict[str, Any], before: str = "", depth: int = 1) -> Iterator[Row]:
    """Of an object, and of the objects within."""
    required = schema.get("required", [])
    for name, one in schema.get("properties", {}).items():
        text = one.get("description", "").partition("\n\n")[0].replace("\n", " ")
        if name not in required:
            default = f"default {_code(json.dumps(one['default']))}" if "default" in one else ""
            text = "; ".join(each for each in ("not always there", default, text) if each)
        yield _code(f"{before}{name}"), _type(one), text
        inner, suffix = _within(one)
        if depth < _OBJECT_DEPTH_MAX:
            yield from _rows(inner, f"{before}{name}{suffix}.", depth + 1)


def _within(schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The object in it, and how its place is written."""
    if schema.get("type") == "array" and "items" in schema:
        inner, suffix = _within(schema["items"])
        return inner, f"[]{suffix}"
    if isinstance(schema.get("additionalProperties"), dict):
        inner, suffix = _within(schema["additionalProperties"])
        return inner, f".NAME{suffix}"
    for one in schema.get("anyOf", []):
        if "properties" in one:
            return one, ""
    return schema, ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f":ref:`{name} <schema-{name}>`"
    if "const" in schema:
        return _code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(_code(str(one)) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    kinds = schema.get("type", "any")
    if kinds == "array":
        inner = schema["prefixItems"] if "prefixItems" in schema else [schema["items"]]
        return f"array of {', '.join(_type(one) for one in inner)}"
    shown = kinds if isinstance(kinds, str) else " or ".join(kinds)
    limits = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "from"), ("maximum", "to"))
        if name in schema
    ]
    default = [f"default {schema['default']}"] if schema.get("default") not in (None, "") else []
    return ", ".join([" ".join([shown, *limits]), *default])


def _code(text: str) -> str:
    return f"``{text}``"


def _text(text: str) -> list[str]:
    return [*as_rest(text.splitlines()), ""]


def _heading(text: str, line: str) -> list[str]:
    return ["", text, line * len(text), ""]


def _table(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    """The last column is text as docstrings are; the others are reStructuredText."""
    rows = list(rows)
    if not rows:
        return
    yield from (".. list-table::", "   :header-rows: 1", "")
    for row in (head, *rows):
        first, *others = (*row[:-1], inline(row[-1]))
        yield f"   * - {first}"
        yield from (f"     - {cell}" for cell in others)
    yield ""
