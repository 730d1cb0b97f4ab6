"""When a client hears SUBACK, what the broker is asked for, and what happens when it says no."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.downlink.pending_subscriptions import BROKER_PATIENCE_S
from gateway.core.effects import DropUpstream, SubscriptionRefused
from gateway.frames import Connect, Disconnect, Suback, Subscribe, Unsuback, Unsubscribe
from tests.support.engine_bench import Bench, granted_id, published


def bench_with_clients(*names: bytes) -> Bench:
    bench = Bench()
    for name in names:
        bench.join(name)
    bench.seen()
    return bench


def patterns(bench: Bench) -> tuple[list[str], list[str]]:
    """What was subscribed and given up since the last look, in order."""
    asked: list[str] = []
    given_up: list[str] = []
    for packet in bench.seen():
        if isinstance(packet, mqtt5.SubscribePacket):
            asked += [each.pattern for each in packet.topic_filters]
        elif isinstance(packet, mqtt5.UnsubscribePacket):
            given_up += packet.patterns
    return list(dict.fromkeys(asked)), given_up


@pytest.mark.guarantee("4c")
def test_suback_waits_for_the_brokers_grant() -> None:
    bench = bench_with_clients(b"s1")
    bench.holds = True
    assert bench.subscribe(b"s1", b"cmd") == []
    bench.release()
    assert granted_id(bench.hear(b"s1")) == 1


def test_a_filter_that_is_covered_already_needs_nothing_from_the_broker() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"cmd/#")
    bench.seen()
    bench.holds = True
    assert granted_id(bench.subscribe(b"s2", b"cmd/a")) == 1
    assert patterns(bench) == ([], [])
    bench.publishes("cmd/a", by="cmd/#")
    assert published(bench.hear(b"s2")) == [(b"on", 0, False)]


def test_a_filter_whose_cover_is_not_granted_yet_waits_for_it() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd/#")
    assert bench.subscribe(b"s2", b"cmd/a") == []
    bench.release()
    assert granted_id(bench.hear(b"s1")) == 0
    assert granted_id(bench.hear(b"s2")) == 1


@pytest.mark.guarantee("4c")
def test_suback_says_a_qos_at_which_the_broker_sends_already() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd", 0)
    at_0 = bench.seen()
    bench.subscribe(b"s2", b"cmd", 2)
    for packet in at_0:
        bench.answer(packet)
    assert bench.heard == []
    bench.release()
    assert [frame for _, frame in bench.heard] == [Suback(1, 1, 0, 0), Suback(1, 1, 0, 2)]


def test_those_that_wait_for_a_narrow_filter_wait_for_the_wide_one_that_takes_its_place() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd/a")
    narrow = bench.seen()
    bench.subscribe(b"s2", b"cmd/#")
    for packet in narrow:
        bench.answer(packet)
    assert bench.hear(b"s1") == []
    bench.release()
    assert granted_id(bench.hear(b"s1")) == 1
    assert granted_id(bench.hear(b"s2")) == 0


def test_those_that_wait_for_a_wide_filter_get_their_own_when_its_client_goes() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd/#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.subscribe(b"s3", b"cmd/+/x")
    bench.seen()
    bench.say(b"s1", Disconnect())
    assert bench.engine.downlink.subscriptions.covering == {"cmd/a": 0, "cmd/+/x": 0}
    assert len(bench.engine.downlink.pending) == 2
    bench.release()
    assert granted_id(bench.hear(b"s2")) == 1
    assert granted_id(bench.hear(b"s3")) == 0


def test_wishes_of_a_session_that_ended_do_not_pile_up_before_a_slow_broker() -> None:
    bench = bench_with_clients()
    bench.holds = True
    for _ in range(100):
        bench.join(b"s1", clean=True)
        bench.subscribe(b"s1", b"cmd/#")
        bench.subscribe(b"s1", b"other", message_id=2)
    downlink = bench.engine.downlink
    assert len(downlink.pending) == 2
    assert len(downlink.subscriptions) == 2
    bench.say(b"s1", Disconnect())
    assert (len(downlink.pending), len(downlink.subscriptions)) == (0, 0)
    bench.release()
    assert bench.hear(b"s1") == []


@pytest.mark.guarantee("4c")
def test_a_subscription_is_accepted_while_the_broker_is_away_and_made_when_it_is_back() -> None:
    bench = Bench(connected=False)
    bench.lose_broker_for_long()
    bench.join(b"s1")
    assert granted_id(bench.subscribe(b"s1", b"cmd")) == 1
    assert bench.seen() == []
    bench.connect_broker()
    assert patterns(bench) == (["cmd"], [])
    bench.publishes("cmd", by="cmd")
    assert published(bench.hear(b"s1")) == [(b"on", 0, False)]


@pytest.mark.guarantee("4c")
def test_those_that_wait_when_the_broker_goes_are_accepted_if_it_does_not_come_back_soon() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd/#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.lose_broker()
    bench.wake(BROKER_PATIENCE_S - 1.0)
    assert bench.subscribe(b"s3", b"cmd/b") == []
    bench.lose_broker()  # it was sought in vain
    bench.wake(BROKER_PATIENCE_S - 0.1)
    assert bench.heard == []
    bench.wake(BROKER_PATIENCE_S)
    assert granted_id(bench.hear(b"s1")) == 0
    assert granted_id(bench.hear(b"s2")) == 1
    assert granted_id(bench.hear(b"s3")) == 1


@pytest.mark.parametrize("connected", [True, False], ids=["there before", "not asked yet"])
def test_what_is_published_as_soon_as_suback_is_heard_comes_also_after_a_short_break(
    connected: bool,
) -> None:
    bench = Bench(connected=connected)
    bench.join(b"s1")
    if connected:
        bench.lose_broker()
    bench.wake(1.0)
    assert bench.subscribe(b"s1", b"cmd", 1) == []
    bench.holds = True
    bench.connect_broker()
    assert bench.hear(b"s1") == [], "the broker has not granted it"
    bench.release()
    granted_id(bench.hear(b"s1"))
    bench.publishes("cmd", qos=1, by="cmd")
    assert published(bench.hear(b"s1")) == [(b"on", 1, False)]


def test_the_patience_with_an_absent_broker_begins_with_the_first_that_asks() -> None:
    bench = Bench(connected=False)  # and nothing is heard of it, as where packets are dropped
    bench.join(b"s1")
    bench.wake(20.0)
    assert bench.subscribe(b"s1", b"cmd") == []
    bench.wake(20.0 + BROKER_PATIENCE_S)
    assert granted_id(bench.hear(b"s1"))


def test_a_broker_that_comes_back_and_grants_nothing_is_not_waited_for_anew() -> None:
    """As one that closes the connection in which it is asked for what it refuses."""
    bench = bench_with_clients(b"s1")
    bench.holds = True
    bench.subscribe(b"s1", b"cmd")
    for second in range(int(BROKER_PATIENCE_S) + 1):
        assert bench.hear(b"s1") == []
        bench.wake(float(second))
        bench.lose_broker()
        bench.connect_broker()
    assert granted_id(bench.hear(b"s1"))


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_broker_that_grants_again_is_waited_for_again(asked_before: bool) -> None:
    bench = bench_with_clients(b"s1")
    if asked_before:
        bench.holds = True
        bench.subscribe(b"s1", b"cmd")
        bench.lose_broker()
        bench.connect_broker()
        bench.release()
    else:
        bench.lose_broker_for_long()
        bench.connect_broker()
    bench.wake(20.0)
    bench.hear(b"s1")
    bench.lose_broker()
    assert bench.subscribe(b"s1", b"other", message_id=2) == []
    bench.wake(20.0 + BROKER_PATIENCE_S)
    assert granted_id(bench.hear(b"s1"))


def test_a_broker_whose_connection_is_about_to_end_is_waited_for() -> None:
    bench = bench_with_clients(b"s1")
    bench.lose_broker_for_long()
    bench.connect_broker()
    bench.from_broker(b"\x00\x00")  # no packet of MQTT
    assert bench.told(DropUpstream)
    assert bench.subscribe(b"s1", b"cmd") == []
    bench.lose_broker()
    assert bench.heard == []
    bench.connect_broker()
    assert granted_id(bench.hear(b"s1"))


def test_one_that_goes_while_the_broker_is_away_waits_no_more() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.lose_broker()
    bench.subscribe(b"s1", b"cmd/a")
    bench.subscribe(b"s2", b"cmd/a")
    for name, left in ((b"s1", 1), (b"s2", 0)):
        bench.say(name, Disconnect())
        assert len(bench.engine.downlink.pending) == left
    bench.wake(BROKER_PATIENCE_S)
    assert bench.heard == []


def test_a_new_connection_asks_for_the_covering_set_again() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"cmd/#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.subscribe(b"s2", b"other", message_id=2)
    bench.lose_broker()
    bench.seen()
    bench.connect_broker(session_present=True)
    asked, given_up = patterns(bench)
    assert (sorted(asked), given_up) == (["cmd/#", "other"], [])


def test_the_last_one_to_leave_gives_the_filter_up() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"cmd")
    bench.subscribe(b"s2", b"cmd")
    bench.seen()
    assert bench.say(b"s1", Unsubscribe(2, b"cmd")) == [Unsuback(2)]
    assert patterns(bench) == ([], [])
    assert bench.say(b"s2", Unsubscribe(2, b"cmd")) == [Unsuback(2)]
    assert patterns(bench) == ([], ["cmd"])
    bench.publishes("cmd")
    assert bench.heard == []


def test_narrow_filters_are_asked_for_before_the_wide_one_is_given_up() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"cmd/#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.seen()
    bench.holds = True
    bench.say(b"s1", Unsubscribe(2, b"cmd/#"))
    packets = bench.seen()
    assert [type(packet) for packet in packets] == [mqtt5.SubscribePacket]
    bench.publishes("cmd/a", by="cmd/#")
    assert published(bench.hear(b"s2")) == [(b"on", 0, False)], "still by the wide one"
    bench.answer(packets[0])
    assert patterns(bench) == ([], ["cmd/#"])


# Refused


def test_a_filter_that_the_broker_refuses_is_refused_to_its_client() -> None:
    bench = bench_with_clients(b"s1")
    bench.refuses = {"secret/#"}
    assert bench.subscribe(b"s1", b"secret/#", qos=1) == [Suback(0, 1, 3, 1)]
    (refused,) = bench.told(SubscriptionRefused)
    assert (refused.topic_filter, refused.client_ids) == ("secret/#", ("s1",))
    assert "not authorised" in refused.reason
    assert len(bench.engine.downlink.subscriptions) == 0
    assert patterns(bench)[1] == [], "there is nothing to give up"
    bench.seen()
    bench.subscribe(b"s1", b"secret/#", message_id=2)
    assert patterns(bench)[0] == ["secret/#"], "it may be allowed by now"


def test_narrower_filters_that_waited_for_a_refused_one_get_their_own() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.refuses = {"#"}
    bench.holds = True
    bench.subscribe(b"s1", b"#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.subscribe(b"s3", b"cmd/b", qos=1)
    bench.release()
    assert bench.hear(b"s1") == [Suback(0, 1, 3)]
    assert granted_id(bench.hear(b"s2")) == 1
    assert granted_id(bench.hear(b"s3")) == 1
    assert bench.engine.downlink.subscriptions.covering == {"cmd/a": 0, "cmd/b": 1}


def test_narrower_filters_that_a_refused_one_covered_are_subscribed_again() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.subscribe(b"s1", b"#")
    bench.subscribe(b"s2", b"cmd/a")
    bench.lose_broker()
    bench.refuses = {"#"}
    bench.seen()
    bench.connect_broker()
    assert patterns(bench) == (["#", "cmd/a"], [])
    (refused,) = bench.told(SubscriptionRefused)
    assert refused.client_ids == ("s1",)
    bench.publishes("cmd/a", by="cmd/a")
    assert published(bench.hear(b"s2")) == [(b"on", 0, False)]
    assert bench.hear(b"s1") == []
    bench.seen()
    bench.say(b"s1", Unsubscribe(2, b"#"))
    assert patterns(bench) == ([], [])


def test_what_a_refused_filter_made_stale_stays_subscribed() -> None:
    """Also when two refusals come at once, of which the first leaves nothing to be asked for."""
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.subscribe(b"s1", b"b/x")
    bench.seen()
    bench.holds = True
    bench.subscribe(b"s2", b"a/#")
    bench.subscribe(b"s3", b"b/#")
    packets = bench.seen_of(mqtt5.SubscribePacket)
    code = mqtt5.SubAckReasonCode.NOT_AUTHORIZED
    bench.from_broker(
        b"".join(mqtt5.SubAckPacket(each.packet_id, [code]).write() for each in packets)
    )
    assert patterns(bench) == (["b/x"], [])
    assert bench.hear(b"s2") + bench.hear(b"s3") == [Suback(0, 1, 3), Suback(0, 1, 3)]
    bench.publishes("b/x", by="b/x")
    assert published(bench.hear(b"s1")) == [(b"on", 0, False)]


def test_one_that_hears_by_a_filter_and_asks_again_loses_it_once_when_it_is_refused() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"cmd", qos=0)
    bench.refuses = {"cmd"}
    answers = bench.say(b"s1", Subscribe(2, b"cmd", 1))
    assert answers == [Suback(0, 2, 3, 1)]
    (refused,) = bench.told(SubscriptionRefused)
    assert refused.client_ids == ("s1",)
    assert len(bench.engine.downlink.subscriptions) == 0


def test_a_refusal_that_a_wider_filter_has_overtaken_costs_nothing() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.refuses = {"cmd/a"}
    bench.holds = True
    bench.subscribe(b"s1", b"cmd/a")
    bench.subscribe(b"s2", b"cmd/#")
    bench.release()
    bench.release()
    assert granted_id(bench.hear(b"s1")) == 1
    assert bench.told(SubscriptionRefused) == []


def test_a_refusal_of_what_nobody_wants_any_more_is_no_news() -> None:
    bench = bench_with_clients(b"s1")
    bench.refuses = {"cmd"}
    bench.holds = True
    bench.subscribe(b"s1", b"cmd")
    bench.say(b"s1", Disconnect())
    bench.release()
    assert bench.told(SubscriptionRefused) == []


@pytest.mark.parametrize("clean", [True, False])
def test_no_suback_for_one_client_reaches_another_at_its_address(clean: bool) -> None:
    bench = bench_with_clients()
    bench.join(b"addr", clean=clean)
    bench.holds = True
    bench.subscribe(b"addr", b"cmd")
    bench.say(b"addr", Connect(b"second", 60, clean_session=True))
    bench.release()
    assert bench.hear(b"addr") == []
    assert (len(bench.engine.downlink.subscriptions) == 0) is clean
