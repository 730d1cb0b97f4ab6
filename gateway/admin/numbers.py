"""The gateway in numbers at one moment: the daemon counts, metrics, status and page show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.effects import State


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNumbers:
    """One listening link. `name` comes from the configuration, never from a peer."""

    name: str
    listening_on: str
    datagrams_received: int
    datagrams_sent: int
    send_failures: int
    receive_buffer_drops: int
    truncated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What begins with `upstream_` is about the connection to the broker.

    `upstream_state`: `connected to mqtt://host:1883`, or what it waits for and why. Numbers by QoS
    are for 0, 1 and 2. Frames are counted by the name of their kind, such as `PUBLISH`.
    """

    uptime_s: float
    clients_by_state: Mapping[State, int]
    subscriptions: int
    covering_subscriptions: int
    retained_messages: int
    retained_bytes: int
    upstream_connected: bool
    upstream_state: str
    upstream_connects: int
    upstream_in_flight: int
    upstream_waiting: int
    upstream_waiting_bytes: int
    upstream_bytes_in: int
    upstream_bytes_out: int
    readings_by_qos: tuple[int, int, int]
    deliveries_by_qos: tuple[int, int, int]
    frames_received: Mapping[str, int]
    frames_sent: Mapping[str, int]
    outbox_messages: int
    links: tuple[LinkNumbers, ...]
    event_loop_lag_s: float
