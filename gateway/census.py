"""Takes the gateway's numbers from all its parts, for metrics and status.

Counted when asked, not kept up to date: going through 100,000 sessions takes some 20 ms, once for
a scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.admin.numbers import LinkNumbers, Numbers
from gateway.effects import State
from gateway.engine import Engine
from gateway.links.broker import BrokerLink, LinkState
from gateway.links.udp import UdpLink


@dataclass(frozen=True, slots=True)
class Census:
    """`started_at` and `now` are in monotonic seconds; `broker_url` is without credentials."""

    engine: Engine
    links: Sequence[UdpLink]
    broker: BrokerLink
    broker_url: str
    frames_sent: Mapping[type, int]
    event_loop_lag_s: Callable[[], float]
    started_at: float
    now: Callable[[], float]

    def numbers(self) -> Numbers:
        engine, broker = self.engine, self.broker
        states, outbox_messages = self._sessions()
        in_flight = engine.upstream.readings.in_flight
        downlink = engine.downlink
        return Numbers(
            uptime_s=self.now() - self.started_at,
            clients_by_state=states,
            subscriptions=len(downlink.subscriptions),
            covering_subscriptions=len(downlink.subscriptions.covering),
            retained_messages=len(downlink.retained),
            retained_bytes=downlink.retained.size_bytes,
            upstream_connected=broker.state is LinkState.SETTLED,
            upstream_state=self._upstream_state(),
            upstream_connects=broker.counters.connects,
            upstream_in_flight=len(in_flight),
            upstream_waiting=len(in_flight.waiting),
            upstream_waiting_bytes=in_flight.waiting_bytes,
            upstream_bytes_in=broker.counters.bytes_in,
            upstream_bytes_out=broker.counters.bytes_out,
            readings_by_qos=_by_qos(engine.uplink.taken),
            deliveries_by_qos=_by_qos(downlink.delivered),
            frames_received=_by_kind(engine.received),
            frames_sent=_by_kind(self.frames_sent),
            outbox_messages=outbox_messages,
            links=tuple(_link_numbers(number, link) for number, link in enumerate(self.links)),
            event_loop_lag_s=self.event_loop_lag_s(),
        )

    def _sessions(self) -> tuple[dict[State, int], int]:
        found: Counter[State] = Counter()
        waiting = 0
        for session in self.engine.sessions.values():
            found[session.state] += 1
            waiting += session.delivering.waiting
        return {state: found[state] for state in State}, waiting

    def _upstream_state(self) -> str:
        broker = self.broker
        match broker.state:
            case LinkState.SETTLED:
                return f"connected to {self.broker_url}"
            case LinkState.WAITING if broker.next_try_at is not None:
                wait_s = max(0.0, broker.next_try_at - self.now())
                return f"trying {self.broker_url} again in {wait_s:.1f} s after: {broker.reason}"
            case LinkState.CONNECTING | LinkState.OPEN:
                return f"connecting to {self.broker_url}"
            case other:
                return str(other.value)


def _link_numbers(number: int, link: UdpLink) -> LinkNumbers:
    host, port = link.listening_on
    counters = link.counters
    return LinkNumbers(
        name=f"udp{number}",
        listening_on=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        datagrams_received=counters.received,
        datagrams_sent=counters.sent,
        send_failures=sum(counters.send_failed.values()),
        receive_buffer_drops=link.read_receive_buffer_drops(),
        truncated=counters.truncated,
    )


def _by_qos(counts: Sequence[int]) -> tuple[int, int, int]:
    return counts[0], counts[1], counts[2]


def _by_kind(counts: Mapping[type, int]) -> dict[str, int]:
    return {kind.__name__.upper(): count for kind, count in counts.items()}
