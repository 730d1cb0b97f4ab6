"""MQTT-SN 1.2 for MicroPython nodes; docs/firmware.md says how to use it.

Here is what every node with a network has. What some have is beside it: `uart`, `aio`, `search`,
`will`, `snapshot`. `firmware/build.py` makes one file of this and what it imports.
"""

from .client import Client
from .udp import Udp

__all__ = ["Client", "Udp"]
