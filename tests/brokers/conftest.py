"""Each test of the suite once for each broker, at a site that they share as long as none fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator

import pytest

from hil.rig.logged_process import ProcessError
from tests.brokers.adapters import BROKERS, PRESENT
from tests.brokers.broker import Broker, Settings
from tests.brokers.site import Site, site

CELL, MARKER = "cell", "brokers"
HAS_FAILED = pytest.StashKey[bool]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Broker by broker, so that each is started once."""
    if "kind" not in metafunc.fixturenames:
        return
    cases = [
        pytest.param(each, id=each.name, marks=() if each in PRESENT else pytest.mark.brokers)
        for each in BROKERS
    ]
    metafunc.parametrize("kind", cases, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those that have to be installed are for who asks for them: -m brokers."""
    if MARKER in config.option.markexpr:
        return
    unwanted = [item for item in items if item.get_closest_marker(MARKER)]
    config.hook.pytest_deselected(items=unwanted)
    items[:] = [item for item in items if item not in unwanted]


class Sites:
    """The site of the broker whose turn it is. One that cannot be made is tried once."""

    def __init__(self, make_folder: pytest.TempPathFactory) -> None:
        self._make_folder = make_folder
        self._stack = contextlib.ExitStack()
        self._kind: type[Broker] | None = None
        self._site: Site | None = None
        self._broken: dict[type[Broker], ProcessError] = {}

    def of(self, kind: type[Broker]) -> Site:
        if kind in self._broken:
            raise self._broken[kind]
        if self._site is None or self._kind is not kind:
            self.close()
            folder = self._make_folder.mktemp(kind.name)
            try:
                self._site, self._kind = self._stack.enter_context(site(kind, folder)), kind
            except ProcessError as error:
                self._broken[kind] = error
                raise
        return self._site

    def close(self) -> None:
        self._site = None
        self._stack.close()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    made = Sites(tmp_path_factory)
    yield made
    made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and not report.passed:
        item.stash[HAS_FAILED] = True
    return report


@pytest.fixture
def is_wanted(kind: type[Broker], request: pytest.FixtureRequest) -> None:
    """Skips what this broker is not asked, and marks what is known to fail."""
    feature = request.node.originalname.removeprefix("test_")
    absent = kind.why_not_here()
    if absent is not None:
        pytest.skip(f"not installed: {absent}")
    if not kind.speaks_mqtt_5 and feature != "connects":
        pytest.skip("not run: it does not speak MQTT 5")
    if feature in kind.lacks:
        pytest.skip(f"not run: {kind.lacks[feature]}")
    if feature in kind.deviations:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason=kind.deviations[feature]))


@pytest.fixture
def here(
    kind: type[Broker], sites: Sites, is_wanted: None, request: pytest.FixtureRequest
) -> Iterator[Site]:
    """The site that the tests of a broker share. Whatever a test is about, the gateway keeps what
    CONNACK says. A test that fails leaves nothing to the next one.
    """
    found = sites.of(kind)
    yield found
    violations = found.tap.violations
    if violations or request.node.stash.get(HAS_FAILED, False):
        sites.close()
    assert not violations


@pytest.fixture
def persistent(
    kind: type[Broker], sites: Sites, is_wanted: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """One whose broker saves its sessions."""
    sites.close()
    folder = tmp_path_factory.mktemp(kind.name)
    with site(kind, folder, Settings(is_persistent=True)) as made:
        yield made
        assert not made.tap.violations


@pytest.fixture
def cell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes words for the table in place of "yes"."""

    def note(words: str) -> None:
        record_property(CELL, words)

    return note
