"""Both event loops, and certificates that the openssl command makes once per run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest
import uvloop

from tests.transports.certificates import Certificates

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    return factory


@pytest.fixture
def run(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    """Runs a test's coroutine to its end; an exception that reached the loop fails the test."""

    def run_to_the_end(story: Coroutine[Any, Any, None]) -> None:
        stray: list[str] = []
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: stray.append(str(context)))
            runner.run(story)
        assert stray == []

    return run_to_the_end


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=[False, True], ids=["tcp", "tls"])
def secured(request: pytest.FixtureRequest, certificates: Certificates) -> Certificates | None:
    return certificates if request.param else None
