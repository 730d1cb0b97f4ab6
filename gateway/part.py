"""News of the gateway as a whole: what it does for sensors that search one, see
`routing/discovery.py`, and what it overheard.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Part(Enum):
    """The values are labels of the metrics."""

    UNABLE = "unable"  # a reading could not be taken now
    STANDBY = "standby"  # another gateway is there, or may be
    ADVERTISING = "advertising"


@dataclass(frozen=True, slots=True)
class DiscoveryChanged:
    before: Part
    after: Part
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Overheard:
    """The broker brought the topic that the gateway itself listens to."""

    payload: bytes
