"""Processors that do not sleep while something is measured.

A processor without work sleeps, and in a virtual machine the hypervisor decides how soon it is back
and whom it serves meanwhile. Messages that wake up three processes in turn are then a measure of
the hypervisor's hour. Linux lets a program say how long waking up may take (PM QoS), and with 0
idle processors poll; tuned's profile `network-latency` does the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEVICE = Path("/dev/cpu_dma_latency")
NO_LATENCY = (0).to_bytes(4, sys.byteorder)  # microseconds


class AwakeError(Exception):
    """They cannot be kept awake; the text says why and what to do."""


@contextmanager
def kept_awake(device: Path = DEVICE) -> Iterator[None]:
    """As long as the device is open; raises AwakeError."""
    try:
        held = os.open(device, os.O_WRONLY)
        try:
            os.write(held, NO_LATENCY)
        except OSError:
            os.close(held)
            raise
    except OSError as error:
        raise AwakeError(
            f"--keep-awake: {device}: {error.strerror}; it takes root, and a kernel with PM QoS"
        ) from error
    try:
        yield
    finally:
        os.close(held)
