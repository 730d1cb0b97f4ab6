"""The client library of the nodes (`firmware/mqttsn`), which the simulated sensors run as it is.

An installed Tidegate has it where `tidegate flash` takes it from, below `gateway/flashing/nodes`;
in the repository it lies at the root. Of it only the part without I/O is used here.
"""

from __future__ import annotations

try:
    from firmware.mqttsn.engine import Engine
except ModuleNotFoundError:
    from gateway.flashing.nodes.firmware.mqttsn.engine import Engine  # type: ignore

__all__ = ["Engine"]
