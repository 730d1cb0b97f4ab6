"""Messages with and without a time, a client that sleeps, wakes and connects, restarts, boots,
pauses and a clock that is set late, in any order: nothing that is over is delivered, and nothing is
dropped that is not.

Where no clock is set the gateway cannot know all of the time that passed. `hidden_s` is what it may
miss at most; a message is late by no more than that, and is never dropped early.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.core.downlink.retained import SWEEP_S
from gateway.core.message_expiry import SAVE_FIRST_S, SAVE_RUN_TIME_S
from gateway.core.state_records import ClientId
from tests.support.expiry_bench import ExpiryBench

# What is on the disk is in whole milliseconds.
ROUNDING_S = 0.01
SECONDS = st.sampled_from([0.25, 1.0, 3.0, 20.0, 90.0, 500.0])
TIMES = st.sampled_from([None, None, 1, 4, 30, 200, 1000])


@dataclass
class Sent:
    """By the application, at a time that truly was."""

    payload: bytes
    over_at: float
    has_wall_clock: bool  # the gateway's was set when it came
    hidden_s: float = 0.0  # by restarts since

    def may_be_over(self, true_s: float) -> bool:
        return true_s >= self.over_at - ROUNDING_S

    def must_be_over(self, true_s: float, *, is_clock_set: bool) -> bool:
        is_known = is_clock_set and self.has_wall_clock
        return true_s >= self.over_at + ROUNDING_S + (0.0 if is_known else self.hidden_s)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = ExpiryBench(is_clock_set=False)
        self.bench.sleeper()
        self.is_asleep = True
        self.run_began = 0.0
        self.clock_set_at = inf  # in this run
        self.waiting: list[Sent] = []
        self.retained: Sent | None = None
        self.number = 0

    # What an application does

    @rule(expiry_s=TIMES, qos=st.integers(1, 2))
    def a_message_comes(self, expiry_s: int | None, qos: int) -> None:
        self._comes(expiry_s, qos, retain=False)

    @rule(expiry_s=TIMES)
    def a_retained_message_comes(self, expiry_s: int | None) -> None:
        self.retained = self._comes(expiry_s, 1, retain=True)

    def _comes(self, expiry_s: int | None, qos: int, *, retain: bool) -> Sent:
        bench = self.bench
        self.number += 1
        payload = b"%d" % self.number
        bench.publish(payload, expiry_s, qos=qos, retain=retain)
        over_at = inf if expiry_s is None else bench.true_s + expiry_s
        sent = Sent(payload, over_at, bench.is_clock_set)
        if self.is_asleep:
            self.waiting.append(sent)
        else:
            assert bench.accepts() == [payload], "who listens gets it at once"
        return sent

    # What the client does

    @precondition(lambda self: self.is_asleep)
    @rule()
    def it_wakes_for_a_moment(self) -> None:
        self._gets(self.bench.fetches())

    @precondition(lambda self: self.is_asleep)
    @rule()
    def it_connects(self) -> None:
        self.bench.comes_back()
        self.is_asleep = False
        self._gets(self.bench.accepts())

    @precondition(lambda self: not self.is_asleep)
    @rule()
    def it_falls_asleep(self) -> None:
        self.bench.falls_asleep()
        self.is_asleep = True

    def _gets(self, payloads: list[bytes]) -> None:
        true_s, is_clock_set = self.bench.true_s, self.bench.is_clock_set
        got = [each for each in self.waiting if each.payload in payloads]
        assert payloads == [each.payload for each in got], "in order, each once"
        for each in self.waiting:
            if each in got:
                assert not each.must_be_over(true_s, is_clock_set=is_clock_set), each
            else:
                assert each.may_be_over(true_s), each
        self.waiting.clear()

    @rule()
    def another_one_subscribes(self) -> None:
        self.number += 1
        got = self.bench.newcomer(b"n%d" % self.number)
        sent, true_s = self.retained, self.bench.true_s
        if got:
            assert sent is not None
            assert got == [sent.payload]
            assert not sent.must_be_over(true_s, is_clock_set=self.bench.is_clock_set)
        else:
            assert sent is None or sent.may_be_over(true_s)
        client_id = ClientId(f"n{self.number}")
        self.bench.ask(self.bench.engine.operator.forget(client_id, self.bench.at))

    # What time, processes and boards do

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.bench.passes(seconds)

    @rule(seconds=st.sampled_from([2.0, 40.0, 300.0]))
    def the_process_stands_still(self, seconds: float) -> None:
        self.bench.stands_still(seconds)

    @rule()
    def the_clock_is_set(self) -> None:
        if not self.bench.is_clock_set:
            self.clock_set_at = self.bench.true_s
        self.bench.is_clock_set = True
        self.bench.look_at_clock()
        self.bench.passes(SWEEP_S)

    @rule(down_s=st.sampled_from([0.0, 5.0, 100.0]), is_boot=st.booleans(), has_clock=st.booleans())
    def the_gateway_is_restarted(self, down_s: float, is_boot: bool, has_clock: bool) -> None:
        """A process that begins again has the clock that the one before it had."""
        bench = self.bench
        ran_s = bench.true_s - self.run_began
        unwritten_s = min(ran_s, SAVE_RUN_TIME_S, max(SAVE_FIRST_S, ran_s / 2)) + SAVE_FIRST_S
        # The run time is not written for what the wall clock tells the age of.
        by_clock_s = min(ran_s, bench.true_s - min(self.clock_set_at, bench.true_s))
        for each in [*self.waiting, *([self.retained] if self.retained else [])]:
            hidden_s = unwritten_s + (by_clock_s if each.has_wall_clock else 0.0)
            each.hidden_s += down_s + hidden_s
        is_clock_set = has_clock if is_boot else bench.is_clock_set
        bench.restart(down_s, is_boot=is_boot, is_clock_set=is_clock_set)
        bench.passes(ROUNDING_S)
        if not self.is_asleep:
            assert bench.accepts() == []
        self.run_began = bench.true_s
        self.clock_set_at = bench.true_s if is_clock_set else inf
        if self.retained is not None and not self.retained.may_be_over(bench.true_s):
            self._confirms(self.retained)

    def _confirms(self, sent: Sent) -> None:
        """The broker sends again what it retains, with the time that is left."""
        left_s = sent.over_at - self.bench.true_s
        expiry_s = None if left_s == inf else int(left_s)
        self.bench.publish(sent.payload, expiry_s, retain=True, is_replay=True)
        sent.over_at = inf if expiry_s is None else self.bench.true_s + expiry_s

    @invariant()
    def what_is_retained_goes_when_it_is_over(self) -> None:
        sent, bench = self.retained, self.bench
        if sent is None or "cmd" not in bench.engine.downlink.retained:
            return
        late_s = bench.true_s - SWEEP_S - ROUNDING_S
        assert not sent.must_be_over(late_s, is_clock_set=bench.is_clock_set)
        assert len(bench.state().retained) == 1


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
