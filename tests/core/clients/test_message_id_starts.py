"""Message ids towards clients begin anywhere, and the same secret gives the same ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

from gateway.core.clients.message_id_starts import MessageIdStarts
from gateway.core.session.outbox import MESSAGE_IDS
from gateway.frames import Connect, Disconnect, Publish
from tests.support.state_bench import SAVING, StateBench

SOME = 1000


def starts(secret: bytes) -> list[int]:
    begins = MessageIdStarts(secret)
    return [begins.take() for _ in range(SOME)]


def test_they_are_spread_over_all_ids() -> None:
    found = starts(b"secret")
    assert 0 <= min(found) < MESSAGE_IDS // 16
    assert MESSAGE_IDS * 15 // 16 < max(found) < MESSAGE_IDS
    assert len(set(found)) > SOME * 0.97
    assert starts(b"secret") == found
    assert starts(b"another") != found


def test_without_a_secret_they_begin_with_one() -> None:
    assert set(starts(b"")) == {0}


def message_id(bench: StateBench) -> int:
    bench.publishes("cmd", b"on", qos=1, by="cmd")
    (message,) = bench.hear(b"s1")
    assert isinstance(message, Publish)
    return message.message_id


def test_each_session_begins_elsewhere_and_so_does_each_run() -> None:
    bench = StateBench(replace(SAVING, message_id_secret=b"one"))
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"cmd", qos=1)
    ids = [message_id(bench)]
    bench.restart(replace(SAVING, message_id_secret=b"two"))
    bench.wake(bench.at + 1)
    bench.hear(b"s1")
    bench.say(b"s1", Connect(b"s1", 60, clean_session=True))
    bench.subscribe(b"s1", b"cmd", qos=1)
    ids.append(message_id(bench))
    bench.say(b"s1", Disconnect())
    bench.join(b"s1")
    bench.subscribe(b"s1", b"cmd", qos=1)
    ids.append(message_id(bench))
    assert len(set(ids)) == 3
    assert all(abs(one - other) > 10 for one, other in itertools.pairwise(ids))
