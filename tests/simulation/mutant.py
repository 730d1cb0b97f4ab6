"""A mistake that is put into the gateway, to see whether a world notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake, a promise that it breaks, and within how many worlds that is seen."""

    name: str
    patch: Patch
    promise: str
    within: int
    kind: str = "any"  # of worlds, as in hard_plans

    @property
    def worlds(self) -> str:
        return f"{self.within}" if self.kind == "any" else f"{self.within} {self.kind}"


def constant(owner: Any, name: str, value: Any) -> Patch:
    """A method that always answers the same, or a number that is another."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        replaced = (lambda *_, **__: value) if callable(getattr(owner, name)) else value
        monkeypatch.setattr(owner, name, replaced)

    return patch
