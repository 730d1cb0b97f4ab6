"""A day of the demo in minutes, with restarts of gateway, broker and Home Assistant in each order.

    python -m pytest -s -m soak tests/home_assistant/test_day.py

prints what was measured. What a day is here: Home Assistant's wall clock is put forward by `SPEED`
seconds each second (home.py), so that its history and its statistics are those of a day. Sensors
send as many readings meanwhile as in a day with one in a minute, others sleep between readings in
ten minutes. The gateway has the real clock; it publishes numbers once a second, so that Home
Assistant sees one in `SPEED` seconds of its day. While one of the three restarts, no clock is put
forward.

Its whole log is read at the end, not that of MQTT alone.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from tests.home_assistant.fleet import (
    OF_THE_BROKER,
    sensors,
    wait_for_new_values,
    wait_for_values,
    without,
)
from tests.home_assistant.site import gateway, home_with_broker

DAY = timedelta(days=1)
SPEED = 300
MINUTE_S = 60 / SPEED
SLEEP_S = 6  # half an hour
STATISTICS_MIN = 240  # of 288 in a day; it makes none of a time without values
AWAKE, SLEEPERS = 3, 2
ORDERS = list(itertools.permutations(("gateway", "broker", "home")))
# Home Assistant's own: why each is no fault of what is tested.
ALLOWED = (
    # It loses the broker, and what it was about to publish; it does all of it again afterwards.
    *OF_THE_BROKER,
    "No ACK from MQTT server in 10 seconds",
    # It is started so, by these tests; what it sets up at first has packages that are not there.
    "Skipping pip installation of required modules",
    "We found a custom integration compile_statistics",
    "zlib_ng and isal are not available",
    "Error setting up entry Google Translate text-to-speech",
    # It measures by its wall clock, which is put forward meanwhile, or the machine is slow.
    "Updating state for",
    "Timed out waiting for final writes",
    "Shutdown stage 'final write': still running",
    "is still running at shutdown",
    # It gives its database 30 s at the end, a tenth of a second of this clock.
    "could not validate that the sqlite3 database",
)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def test_a_day_of_the_demo_with_restarts_in_each_order_leaves_nothing_in_the_log(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        broker, home = stack.enter_context(home_with_broker(has_clock=True))
        serving = stack.enter_context(gateway(tmp_path / "gateway", broker))
        began = home.now
        fleets = (
            stack.enter_context(sensors(serving, number=AWAKE, interval_s=MINUTE_S)),
            stack.enter_context(
                sensors(
                    serving,
                    "sleeper",
                    number=SLEEPERS,
                    interval_s=10 * MINUTE_S,
                    sleep_s=SLEEP_S,
                )
            ),
        )
        names = [name for fleet in fleets for name in fleet.names]
        entities = wait_for_values(home, names)
        home.all_complaints()  # of its first set-up, which asks for packages that are not there
        restart = {"gateway": serving.restart, "broker": broker.restart, "home": home.restart}
        for order in ORDERS:
            home.let_pass(DAY / (len(ORDERS) + 1), SPEED)
            for each in order:
                restart[each]()
            wait_for_new_values(home, names, entities)
            say(f"{home.now - began}: {', '.join(order)}")
        home.let_pass(began + DAY - home.now, SPEED)
        home.restart()  # it makes what is missing of its statistics
        wait_for_new_values(home, names, entities)
        every_value = sorted(itertools.chain.from_iterable(entities.values()))
        history = {each: home.api.history(each, began) for each in every_value}
        statistics = {each: home.api.statistics(each) for each in every_value}
        issues = {each: home.api.statistics_issues(each) for each in every_value}
        complaints = home.all_complaints()
        say(f"{home.now - began} of its clock")
        say(f"{sum(map(len, history.values()))} states of {len(every_value)} values")
        least = min(map(len, statistics.values()))
        say(f"{least} statistics of five minutes for each of them, at least")
        say(f"{len(complaints)} warnings and errors: {sorted({each[24:] for each in complaints})}")
        assert without(ALLOWED, complaints) == []
        assert not any(issues.values())
        assert least > STATISTICS_MIN
