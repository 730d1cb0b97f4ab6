"""What `machine.reset_cause` returns on simulated boards, as on ESP32, and which end of a run
leads to it.
"""

from __future__ import annotations

POWER_ON, HARD_RESET, WATCHDOG, DEEP_SLEEP, SOFT_RESET = 1, 2, 3, 4, 5

CAUSES = {
    "deepsleep": DEEP_SLEEP,
    "reset": HARD_RESET,
    "watchdog": WATCHDOG,
    "soft_reset": SOFT_RESET,
}
