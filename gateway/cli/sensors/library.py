"""The client library of the nodes (`firmware/mqttsn`), which the simulated sensors run as it is.

An installed Tidegate has it where `tidegate flash` takes it from, below `gateway/flashing/nodes`;
in the repository it lies at the root. Of it only the part without I/O is used here.
"""

from __future__ import annotations

from typing import Any

try:
    from firmware.mqttsn.engine import Engine
except ModuleNotFoundError:
    from gateway.flashing.nodes.firmware.mqttsn.engine import Engine  # type: ignore

__all__ = ["Engine", "protected_transport"]


def protected_transport(
    inner: Any, sender_id: bytes, key: bytes, epoch: int, size: int, scheme: int
) -> Any:
    """Without a memory that outlasts it. `size`: bytes of the largest packet. `scheme`: its number.
    Raises ImportError for AES-CCM where the package cryptography is missing.
    """
    if scheme:
        from gateway.cli.sensors.cryptolib import install

        install()
    try:  # of sensors with keys alone
        from firmware.mqttsn.protect import Protected
    except ModuleNotFoundError:
        from gateway.flashing.nodes.firmware.mqttsn.protect import Protected  # type: ignore

    return Protected(inner, sender_id, key, b"", _forget, epoch=epoch, size=size, scheme=scheme)


def _forget(_counters: bytes) -> None:
    pass
