"""What goes wrong with Spark itself, and what a person can use of its pages."""

from __future__ import annotations

import re
import socket

_RESTARTED = "was started again, or has given our session up; start this again"
_SERVER_IS = {
    "StatusCode.UNAVAILABLE": "does not answer any more; start this again when it does",
    "INVALID_HANDLE.SESSION_": _RESTARTED,
    "[NO_ACTIVE_SESSION]": _RESTARTED,  # when another thread got the first error
}


class NoSessionError(Exception):
    """Spark does not start, or its workers cannot run our code."""


def unknown_name() -> str:
    """What is wrong with this machine's own name, whose address Spark asks for; mostly nothing."""
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        return f"; {name}, the name of this machine, has no address: add it to /etc/hosts"
    return ""


def first_line(error: BaseException) -> str:
    """The last exception of Python in it, or the first line; or what is with the server."""
    text = str(error)
    for words, how in _SERVER_IS.items():
        if words in text:
            return f"the Spark Connect server {how}"
    raised = re.findall(r"^(?:\w+\.)*(\w+Error)(?:: (.+))?$", text, re.MULTILINE)
    if raised:
        name, reason = raised[-1]
        return str(reason or name)
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
