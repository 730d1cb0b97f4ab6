"""JSON Schemas (2020-12) of the values that answers are made of: from their types, or written out.

An object that is written out has all its properties in each answer. More may be added in later
versions, so none forbids others.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

_OF_PLAIN: dict[object, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    NoneType: "null",
}


def of(kind: Any, description: str = "") -> Schema:
    """Of a type, as `json.dumps` writes its values. Raises TypeError for any other."""
    return described(_of(kind), description)


def described(schema: Schema, description: str) -> Schema:
    return schema | {"description": description} if description else schema


def record(properties: Mapping[str, Schema], description: str = "") -> Schema:
    """All of them are there."""
    schema = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return described(schema, description)


def array(items: Schema, description: str = "") -> Schema:
    return described({"type": "array", "items": items}, description)


def optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def constant(value: str) -> Schema:
    return {"const": value}


def choice(values: Sequence[str], description: str = "") -> Schema:
    return described({"type": "string", "enum": list(values)}, description)


def counts(names: type[Enum], description: str = "") -> Schema:
    """One count for each member; members may be added."""
    return record({member.value: {"type": "integer"} for member in names}, description)


def properties_of(kind: type) -> dict[str, Schema]:
    """Of a dataclass as `asdict` makes it."""
    assert is_dataclass(kind)
    hints = get_type_hints(kind)
    return {field.name: _of(hints[field.name]) for field in fields(kind)}


def of_dataclass(kind: type, **further: Schema) -> Schema:
    """With its docstring; `further` replaces properties, or is added to them."""
    return record(properties_of(kind) | further, inspect.getdoc(kind) or "")


def _of(kind: Any) -> Schema:
    if kind in _OF_PLAIN:
        return {"type": _OF_PLAIN[kind]}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return choice([member.value for member in kind])
    if isinstance(kind, type) and is_dataclass(kind):
        return of_dataclass(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _any_of([_of(one) for one in arguments])
    if origin is tuple and arguments[-1] is not Ellipsis:
        size = {"minItems": len(arguments), "maxItems": len(arguments)}
        return {"type": "array", "prefixItems": [_of(one) for one in arguments], **size}
    if origin in (tuple, Sequence):
        return array(_of(arguments[0]))
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    raise TypeError(f"{kind} has no form in JSON that is known here")


def _any_of(schemas: list[Schema]) -> Schema:
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}
