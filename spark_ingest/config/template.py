"""A configuration with every key, its meaning and its default, for `init` and for docs/spark.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from dataclasses import Field as DataField
from pathlib import Path
from typing import Any

from spark_ingest.config.kinds import Broker, HostPort, with_unit
from spark_ingest.config.settings import TABLES, FieldSettings, RouteSettings, SchemaSettings

NEEDED = ("path", "topics")


def template() -> str:
    """It loads as it is: what need not be given is a comment."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Configuration of `python -m spark_ingest`. What begins with # is the default."
    for name, table in TABLES.items():
        yield from ("", f"# {table.__doc__}.", f"[{name}]")
        for each in fields(table):
            yield from _key(each, "" if each.name in NEEDED else "# ")
    yield from ("", f"# {SchemaSettings.__doc__}.", "# [[schema]]")
    for each in fields(SchemaSettings):
        if "kind" in each.metadata:
            yield from _key(each, "# ")
    yield "# [schema.fields.temperature]"
    for each in fields(FieldSettings):
        yield from _key(each, "# ")
    yield from ("", f"# {RouteSettings.__doc__}.", "# [[route]]")
    for each in fields(RouteSettings):
        yield from _key(each, "# ")
    yield ""


def _key(field: DataField[Any], mark: str) -> Iterator[str]:
    metadata = field.metadata
    why = f" ({metadata['why']})" if metadata["why"] else ""
    yield f"# {metadata['meaning']}{why}; {metadata['kind'].expected}"
    yield f"{mark}{field.name} = {metadata['example'] or _literal(field)}"


def _literal(field: DataField[Any]) -> str:
    default = field.default
    if default is MISSING:
        assert field.default_factory is not MISSING
        default = field.default_factory()
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, Path | Broker | HostPort | str):
        return json.dumps(str(default), ensure_ascii=False)
    if field.name.endswith("bytes_max"):
        return json.dumps(with_unit(default))
    if isinstance(default, tuple):
        return json.dumps(default, ensure_ascii=False)
    return f"{default:g}" if isinstance(default, float) else str(default)
