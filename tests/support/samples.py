"""How much of a sweep the ordinary run has: a sample of each, and `make soak` the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from itertools import islice
from typing import Any

import pytest
from hypothesis import settings


def sample(values: Iterable[Any], count: int) -> list[Any]:
    """For `parametrize`: the first of these are in the ordinary run, the others in the soak."""
    rest = iter(values)
    ordinary = [*islice(rest, count)]
    return ordinary + [_soaked(value) for value in rest]


def seeds(ordinary: int, soaked: int, *, each: int) -> list[Any]:
    """For `parametrize`: ranges of so many seeds for the ordinary run, `each` in a test, and all
    others up to `soaked` for the soak, twenty times as many in a test.
    """
    few = [range(first, min(first + each, ordinary)) for first in range(0, ordinary, each)]
    each *= 20
    many = [range(first, min(first + each, soaked)) for first in range(ordinary, soaked, each)]
    return [
        *(pytest.param(part, id=f"from {part.start}") for part in few),
        *(pytest.param(part, id=f"from {part.start}", marks=pytest.mark.soak) for part in many),
    ]


def _soaked(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.soak)


def examples(*, times: int) -> settings:
    """For a property that takes little time: so many times as many examples as others have."""
    return settings(max_examples=times * settings().max_examples)


def for_each(
    name: str, values: Iterable[Any], *, shown: Callable[[Any], object] = lambda value: value
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """`parametrize` for hundreds of small cases: one test, which ends at the first that fails."""

    def looped(test: Callable[[Any], None]) -> Callable[[], None]:
        def run() -> None:
            for value in values:
                with named(**{name: shown(value)}):
                    test(value)

        update_wrapper(run, test)
        del run.__wrapped__  # type: ignore[attr-defined]  # or pytest would look for a fixture
        return run

    return looped


@contextmanager
def named(**case: object) -> Iterator[None]:
    """For a loop in a test: a failure in it names the case, as the id of a test would."""
    try:
        yield
    except BaseException as error:
        error.add_note(", ".join(f"{name} {value!r}" for name, value in case.items()))
        raise
