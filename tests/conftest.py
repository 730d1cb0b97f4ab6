"""For all tests: no example of a property has to be done in a given time, and coverage is not of
all of them.

With TIDEGATE_COMPILED=yes the compiled modules are tested (docs/performance.md), but for tests that
change a class of theirs, which cannot be changed: those are marked `plain`.

Every gateway that a test starts as a process of its own looks for calls that may block in the
thread of its event loop (app/service/blocking_check.py). A test whose gateway made one fails.

The machines that run these tests are shared, and a Raspberry Pi is twenty times slower than some.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from gateway.app.service import blocking_check
from gateway.host import compiled
from hil.rig.small_disk import NoSmallDiskError
from tests.support.own_network import NoNetworkError
from tests.support.warm import starts

# The same examples each time: whoever changes one thing shall not be told of another. New ones are
# looked for by `make soak`, many of them.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("new", deadline=None, max_examples=2000)
settings.load_profile("same")

# Of the pure core; what is beside them has real sockets, processes and disks below it.
MEASURED = (
    "core/",
    "frames/",
    "packets/",
    "presence/",
    "spark_ingest/",
    "transports/framing/",
    "admin/test_client_queries.py",
    "admin/test_commands.py",
    "app/test_watch.py",
)
# Files, and tests of files: many inputs on ways that other tests go too; while coverage is measured
# they take three to five times as long.
MEASURED_BY_OTHERS = (
    "transports/framing/test_any_octets.py",
    "transports/framing/test_noisy_line.py",
    "core/session/test_memory.py",
    "core/downlink/test_downlink_power_cuts.py",
    "core/test_engine_any_input.py",
    "core/test_engine_any_input_saved.py",
    "core/test_token_buckets.py::test_ten_thousand_sensors_come_back_at_once_and_none_must_ask_again",
    "core/access/test_bindings.py::test_very_many_random_bindings_are_as_the_evaluator_says",
    "core/clients/test_host_quota.py::test_ten_thousand_ids_of_one_host_refuse_no_client_elsewhere",
    "presence/test_latest.py::test_ten_thousand_sensors_cost_what_the_module_says",
    "presence/test_queue.py::test_a_hundred_thousand_sleepers_make_no_burst",
)
# What looks at the memory of a gateway, at its command line in /proc, or at its very first moments:
# each of its processes begins with exec (tests/support/warm).
COLD = (
    "app/service/test_hanging_configuration.py",
    "app/service/test_no_core.py",
    "app/test_memory.py",
    "app/test_start_costs.py",
    "cli/test_doctor.py",
    "cli/test_doctor_hosts.py",
    "cli/test_main.py",
    "end_to_end/test_canaries.py",
    "end_to_end/test_connect_flood.py",
    "end_to_end/test_dtls_flood.py",
    "end_to_end/test_little_memory.py",
    "end_to_end/test_many_ids.py",
    "end_to_end/test_mutated_conversations.py",
    "end_to_end/test_process_pause.py",
    "end_to_end/test_robustness.py",
    "home_assistant/",
    "host/",
)
# Those that run longest begin, and the quick ones are last: where several processes share them out,
# none waits long for another's last file. What is not named lies between.
LONG = (
    "docs/test_blocks.py",
    "end_to_end/restart/",
    "simulation/test_worlds.py",
    "end_to_end/test_broker_ends_connections.py",
    "cli/test_live_verbs.py",
    "flashing/test_microbit.py",
    "hil/",
    "examples/",
    "firmware/test_tiny.py",
    "admin/web/",
    "house/test_site.py",
    "end_to_end/",
    "storage/backup/",
    "cli/test_buffer.py",
    "cli/test_demo.py",
    "cli/test_simulate.py",
    "app/service/",
    "storage/journal/test_found_files.py",
    "brokers/",
    "flashing/",
    "house/",
)
QUICK = ("core/", "frames/", "config/", "presence/", "transports/framing/", "golden/")
SOAK_TIMEOUT_S = 7200  # whoever starts one, also by its name
_HERE = Path(__file__).parent
_IS_COMPILED = os.environ.get(compiled.VARIABLE) == "yes"

# Under `nohup` and in the background of a script SIGINT is ignored, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if _IS_COMPILED and (_form := compiled.use(os.environ)) is not compiled.Form.COMPILED:
    raise pytest.UsageError(_form.value)

starts.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run the files, and the tests of each, in an order drawn from this number"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _IS_COMPILED:
        plain = [item for item in items if item.get_closest_marker("plain")]
        config.hook.pytest_deselected(items=plain)
        items[:] = [item for item in items if item not in plain]
    items.sort(key=_turn)
    seed = config.getoption("--shuffle")
    if seed is not None:
        _shuffle(items, seed)
    for item in items:
        path = item.path.relative_to(_HERE).as_posix()
        test = f"{path}::{getattr(item, 'originalname', None) or item.name}"
        if not path.startswith(MEASURED) or not {path, test}.isdisjoint(MEASURED_BY_OTHERS):
            item.add_marker(pytest.mark.no_cover)
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(SOAK_TIMEOUT_S))


def _turn(item: pytest.Item) -> int:
    """Of a test's file; the tests of one keep their order."""
    path = item.path.relative_to(_HERE).as_posix()
    if path.startswith(QUICK):
        return len(LONG) + 1
    return next((turn for turn, name in enumerate(LONG) if path.startswith(name)), len(LONG))


def _shuffle(items: list[pytest.Item], seed: int) -> None:
    dice = random.Random(seed)
    turns = {path: dice.random() for path in dict.fromkeys(item.path for item in items)}
    drawn = [(turns[item.path], dice.random(), item) for item in items]
    items[:] = [item for _, _, item in sorted(drawn, key=lambda each: each[:2])]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    starts.starts.is_cold = item.path.relative_to(_HERE).as_posix().startswith(COLD)
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with unmeasured(item):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with unmeasured(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What this system does not let a user have is no failure of the test; it says what to do."""
    del item
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, NoSmallDiskError | NoNetworkError):
        why = f"not run: {error}"
        call.excinfo = pytest.CallInfo.from_call(lambda: pytest.skip(why), call.when).excinfo


@contextmanager
def unmeasured(item: pytest.Item) -> Iterator[None]:
    """`no_cover` for processes of xdist as well: there pytest-cov 7.1 pauses what it measures with,
    and a second one that it has begun without need goes on instead.
    """
    if item.get_closest_marker("no_cover") is None:
        yield
        return
    of_this, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(of_threads)
        sys.settrace(of_this)


@pytest.fixture(scope="session", autouse=True)
def blocking_calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where gateways write what they find; they inherit the variables."""
    to = tmp_path_factory.mktemp("blocking") / "calls"
    to.touch()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(blocking_check.VARIABLE, "log")
        environment.setenv(blocking_check.FILE_VARIABLE, str(to))
        yield to


@pytest.fixture(autouse=True)
def no_gateway_blocks(blocking_calls: Path) -> Iterator[None]:
    """The first to be set up, so the last to be torn down: all gateways of the test have ended."""
    before = blocking_calls.stat().st_size
    yield
    if blocking_calls.stat().st_size > before:
        found = blocking_calls.read_text(encoding="utf-8")[before:]
        pytest.fail(f"calls in the thread of an event loop that may block:\n{found}", pytrace=False)
