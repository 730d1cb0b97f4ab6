"""How patient a simulated sensor's client is, and how it sleeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient the client is.

    The spec recommends 10 to 15 s for T_retry, with radios in mind (section 7.2). Over loopback an
    answer takes milliseconds, and a demo that waits 10 s for a lost datagram looks dead.

    A client with `sleep_s` sleeps when it has had nothing to say for `linger_s`, and wakes to fetch
    what waits for it (PINGREQ), or to publish (CONNECT).
    """

    retry_after_s: float = 1.6  # by dice up to half more
    retries_max: int = 4  # N_retry, 3..5
    keep_alive_s: int = 60
    congestion_pause_s: float = 5.0  # T_wait; 5 min in the spec
    sleep_s: int = 0  # 0: it never sleeps
    linger_s: float = 0.2  # what came for it follows CONNACK and SUBACK at once
    wake_after: float = 0.9  # of the sleep it declared; above 1 it is late, as cheap clocks are
    reconnect_pause_s: tuple[float, float] = (0.1, 1.0)  # spread, so that a fleet comes in pieces
