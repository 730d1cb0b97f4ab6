"""How many descriptors this configuration needs, and how many more the status page may take.

Measured: with one listener, the page and the broker 21 are open, standard streams included.
"""

from __future__ import annotations

from gateway.config.settings import Settings
from gateway.host.limits import NOFILE, UNLIMITED, provide_descriptors

# The lock, the database with its log, a segment, and eleven of the event loop and the log.
_STORES_AND_LOOP = 15
# The broker and its name look-up, the next segment and its folder, a file that is read.
_FOR_A_MOMENT = 6
DESCRIPTORS_MIN = _STORES_AND_LOOP + _FOR_A_MOMENT

# Of the page: what may wait to be accepted; as many again may be open, and streams.
BACKLOG_MAX = 64
STREAMS_MAX = 8
_STANDARD_STREAMS = 3


def provide(settings: Settings) -> int:
    """Raise the limit of descriptors; returns what it is now. Raises LimitError."""
    needed = descriptors_needed(settings)
    return provide_descriptors(needed, needed + _STANDARD_STREAMS + 3 * BACKLOG_MAX + STREAMS_MAX)


def page_backlog(settings: Settings) -> int:
    """So many that a crowd at the page leaves enough for sensors, journal and broker."""
    soft = NOFILE.soft()
    if soft == UNLIMITED:
        return BACKLOG_MAX
    room = soft - descriptors_needed(settings) - _STANDARD_STREAMS - STREAMS_MAX
    return min(BACKLOG_MAX, max(1, room // 3))


def descriptors_needed(settings: Settings) -> int:
    listeners = sum(1 if udp.multicast is None else 3 for udp in settings.listeners)
    page = 0 if settings.admin.listen is None else 2
    return DESCRIPTORS_MIN + listeners + 2 * len(settings.serial) + page
