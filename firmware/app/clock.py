"""When a reading was taken, on a board whose clock begins again whenever its power goes.

The board's clock runs on in deep sleep. What it shows is kept with each reading, and with the
number of its era, which is another one after a loss of power. When the reading is sent, its age is
told from that, or the Unix time once somebody has said it (`learn`). A reading of an era that ended
before anybody did is sent as one of which nobody knows when.

Limits: seconds, which is what readings need; the board's clock may be off by 5 % in deep sleep
(ESP32), so `learn` is due once a day.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

UNIX = 0  # as an era: the seconds are Unix time
LEARN_EVERY_S = 86_400
ROUND_TRIP_MS_MAX = 5_000  # an answer that took longer says nothing


class Clock:
    def __init__(self, seconds: "Callable[[], int]", era: int) -> None:
        """`seconds`: the board's clock. `era`: 1 to 65,535, by dice in each life of it."""
        self.seconds = seconds
        self.era = era
        self.offset_s: int | None = None  # from the board's clock to Unix time
        self.learnt_at = 0  # by the board's clock

    def stamp(self) -> tuple[int, int]:
        """Seconds and era of this moment."""
        if self.offset_s is None:
            return self.seconds(), self.era
        return self.seconds() + self.offset_s, UNIX

    def base_time(self, seconds: int, era: int) -> int | None:
        """Of SenML: Unix time, or an age below 0; 0 is now, None that nobody knows."""
        if era == UNIX:
            return seconds
        if era != self.era:
            return None
        if self.offset_s is not None:
            return seconds + self.offset_s
        return min(0, seconds - self.seconds())

    @property
    def is_due(self) -> bool:
        age_s = self.seconds() - self.learnt_at
        return self.offset_s is None or not 0 <= age_s < LEARN_EVERY_S

    def learn(self, unix_ms: int, round_trip_ms: int) -> bool:
        """Whether it was worth anything."""
        if round_trip_ms > ROUND_TRIP_MS_MAX:
            return False
        self.learnt_at = self.seconds()
        self.offset_s = (unix_ms + round_trip_ms // 2) // 1000 - self.learnt_at
        return True
