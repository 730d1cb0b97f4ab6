"""What a gateway does for sensors that search one, and the news of a change. See
`routing/discovery.py`.
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
