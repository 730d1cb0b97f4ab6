"""What starts, stops and reloads the gateway of this machine, in words to type: systemd's, where it
is the init; a container's engine and a shell do it as they did before.
"""

from __future__ import annotations

from pathlib import Path

SYSTEMD = Path("/run/systemd/system")  # sd_booted(3)
_OTHERWISE = {
    "start": "start it as before",
    "restart": "stop it, and start it as before",
    "reload": "send it SIGHUP",
}


def how_to(action: str) -> str:
    """`action`: start, restart or reload."""
    return f"sudo systemctl {action} tidegate" if SYSTEMD.exists() else _OTHERWISE[action]
