"""Commands to the gateway itself, which Home Assistant publishes below `tidegate/<name>/command/`.

Rule 1: a retained command is not followed. The broker sends it again with each connection, and a
        restart makes a new one.
Rule 2: no restart in the first `RESTART_EVERY_S` after the start, so there is no loop of them.
Rule 3: what is not followed is logged, one line in `LINE_EVERY_S` at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf

from gateway.config.settings import JOIN_S_MAX
from gateway.core.effects import OwnTopicReceived
from gateway.presence.topics import LOG_LEVEL, PERMIT_JOINING, RESTART

log = logging.getLogger("tidegate.presence")

RESTART_EVERY_S = 60.0
LINE_EVERY_S = 1.0
SHOWN_MAX = 60  # characters of what was published


class GatewayCommands:
    """`topics`: what is before the name of a command. `log_levels`: how to set each. `join`: how to
    open joining for so many seconds, 0 to close it; None where all may come in.
    """

    def __init__(
        self,
        topics: str,
        *,
        restart: Callable[[], None],
        log_levels: Mapping[str, Callable[[], None]],
        started_at: float,
        join: Callable[[float], None] | None = None,
    ) -> None:
        self._topics = topics
        self._restart = restart
        self._log_levels = log_levels
        self._started_at = started_at
        self._join = join
        self._logged_at = -inf

    def receive(self, received: OwnTopicReceived, now: float) -> bool:
        """False if it is for someone else. An empty one clears what the broker retained."""
        if not received.topic.startswith(self._topics):
            return False
        if received.payload:
            name = received.topic.removeprefix(self._topics)
            text = received.payload.decode(errors="replace")
            why = "it is retained" if received.is_retained else self._follow(name, text, now)
            if why is not None and now - self._logged_at >= LINE_EVERY_S:
                self._logged_at = now
                shown = f"{name} {text}"[:SHOWN_MAX]
                log.warning("the command %r is not followed: %s", shown, why)
        return True

    def _follow(self, name: str, text: str, now: float) -> str | None:
        """Why not; None if it is followed."""
        if name == RESTART:
            if now - self._started_at < RESTART_EVERY_S:
                return f"the gateway has started less than {RESTART_EVERY_S:.0f} s ago"
            self._restart()
            return None
        if name == LOG_LEVEL:
            if text not in self._log_levels:
                return f"expected one of {', '.join(self._log_levels)}"
            self._log_levels[text]()
            return None
        if name == PERMIT_JOINING and self._join is not None:
            if text not in ("ON", "OFF"):
                return "expected ON or OFF"
            self._join(JOIN_S_MAX if text == "ON" else 0.0)
            return None
        return f"there is none of this name; {RESTART} and {LOG_LEVEL} are"
