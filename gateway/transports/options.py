"""Socket options that a kernel, an emulator or a sandbox may lack: tried, noted, gone without."""

from __future__ import annotations

import logging
import socket

log = logging.getLogger("tidegate.sockets")


def set_option(
    opened: socket.socket, level: int, option: int, value: int | bytes, purpose: str
) -> bool:
    """Whether it could be set; if not, what it would have been good for is in the log (debug)."""
    try:
        opened.setsockopt(level, option, value)
    except OSError as error:
        log.debug("no socket option for %s here, it goes without: %s", purpose, error)
        return False
    return True
