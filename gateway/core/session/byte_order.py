"""Acknowledgements of clients that send their numbers with the low byte first.

Only one message is under way, so what such a client means is known where both of its numbers are
those of that message, swapped. A topic id that reads the same either way shows nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from gateway.frames import Puback, Regack

Acknowledgement = TypeVar("Acknowledgement", Regack, Puback)


def in_network_order(
    frame: Acknowledgement, topic_id: int | None, message_id: int
) -> Acknowledgement:
    """The frame, as one for this message if that is what it means."""
    if topic_id is None or frame.topic_id == topic_id:
        return frame
    if (_swapped(frame.topic_id), _swapped(frame.message_id)) != (topic_id, message_id):
        return frame
    return replace(frame, topic_id=topic_id, message_id=message_id)


def _swapped(number: int) -> int:
    return (number & 0xFF) << 8 | number >> 8
