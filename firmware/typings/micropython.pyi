"""Of MicroPython's own module what the library uses, for mypy on CPython."""

from typing import TypeVar

Value = TypeVar("Value")

def const(value: Value) -> Value: ...
