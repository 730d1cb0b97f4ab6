"""No bytes raise, break the engine's own rules, or make it forget what it is doing for nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.frames import Puback
from tests.firmware.engine_bench import Bench
from tests.support.samples import examples

KINDS = st.integers(0, 0x20)
DATAGRAMS = st.one_of(
    st.binary(max_size=64),
    st.builds(
        lambda kind, rest: bytes((len(rest) + 2, kind)) + rest, KINDS, st.binary(max_size=40)
    ),
    st.builds(
        lambda kind, rest: b"\x01\x00" + bytes((len(rest) + 4, kind)) + rest,
        KINDS,
        st.binary(max_size=40),
    ),
)


@examples(times=2)
@given(st.lists(DATAGRAMS, max_size=30), st.sampled_from([0, 1, 2]), st.sampled_from(range(6)))
def test_any_octets_leave_an_engine_that_works(
    datagrams: list[bytes], state: int, request: int
) -> None:
    bench = Bench()
    engine = bench.engine
    engine.state = state
    (
        lambda: engine.connect(),
        lambda: engine.publish(1, b"x", 1, 0),
        lambda: engine.publish(b"a/b", b"x", 2, 0),
        lambda: engine.subscribe(b"cmd/#", 1),
        lambda: engine.open(0x16, 0x17, 0, 0, b"node"),
        lambda: None,
    )[request]()
    for datagram in datagrams:
        _, payload = bench.hears_octets(datagram)
        assert payload is None or len(payload) < len(datagram)
        assert 0 <= engine.size <= len(engine.frame)
        assert len(engine.topics) <= 16
        engine.due(1)
    engine.state = 1
    engine.reading_id = 0
    engine.publish(1, b"x", 1, 0)
    bench.said(0)
    bench.hears(Puback(1, engine.message_id, 0))
    assert (engine.size, engine.code) == (0, 0)
