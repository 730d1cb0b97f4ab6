"""What a schedule of the journal is like: its sizes, its disk, its faults. One seed decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from gateway.storage.journal.options import WhenFull
from tests.simulation.simulated_files import Faults

FOLDER = Path("journal")
UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True)
class Plan:
    """What a schedule is like."""

    segment_bytes: int
    segments: int
    when_full: WhenFull
    recent_s: float
    pending_bytes_max: int
    capacity_bytes: int
    faults: Faults
    has_rot: bool
    lives: int
    steps: int  # in each
    payload_bytes_max: int
    queued: float  # of the readings
    reads: float  # of the steps
    finishes: float  # of what the core does

    @property
    def fails(self) -> bool:
        faults = self.faults
        return bool(faults.sync_fails or faults.write_fails or faults.sync_folder_fails)


def plan_of(dice: Random) -> Plan:
    segment_bytes = dice.choice([4096, 4096, 4096, 8192])
    segments = dice.choice([4, 5, 6, 8, 8, 12])
    space = dice.choice([None, None, None, dice.uniform(0.3, 1.1)])
    rate = dice.choice([0.0, 0.0, 0.0, 0.01, 0.05])
    is_wide = dice.random() < 0.5
    other_rate = rate if is_wide else 0.0
    short = dice.choice([0.0, 0.02, 0.2])
    return Plan(
        segment_bytes=segment_bytes,
        segments=segments,
        when_full=dice.choice(list(WhenFull)),
        recent_s=dice.choice([0.0, 90.0, 90.0]),
        pending_bytes_max=dice.choice([3000, 4 << 20]),
        capacity_bytes=UNLIMITED if space is None else int(segment_bytes * segments * space),
        faults=Faults(short, short, other_rate, rate, other_rate, other_rate / 4, other_rate),
        has_rot=dice.random() < 0.2,
        lives=dice.randint(1, 4),
        steps=dice.randint(3, 25),
        payload_bytes_max=dice.choice([40, 400, 2000]),
        queued=dice.choice([0.05, 0.5, 0.5, 0.95, 1.0]),
        reads=dice.choice([0.02, 0.1, 0.3]),
        finishes=dice.choice([0.05, 0.2, 0.4]),
    )
