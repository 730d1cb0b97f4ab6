"""One wake of a sensor: measure, store, talk, and how long to sleep then.

Rules
- A reading is in the flash before the radio is switched on, and stays there until the gateway has
  acknowledged it. Only a flash that takes nothing is gone past: then it is sent from memory, once.
- No wake is longer than `budget_s`, whatever the network does. After a wake in which nobody
  answered, 1, 3, 7, ... wakes measure and store only, up to SKIP_MAX.
- What the board keeps of its conversation is taken from it before the first frame, and given back
  after the last one (`kept.py` says why).
- In safe mode nothing is measured: it says so, and takes settings and updates.
- A wake that came to its end is one that lived (`loader/slots.py`), with or without a network.
- A sensor that fails in whatever way costs its own values and no other.

Limits: a reading whose records have more than READING_OCTETS together is stored as several.
"""

from random import getrandbits
from struct import pack

from . import senml
from .clock import Clock
from .kept import Kept
from .log import DEBUG, ERROR, INFO, WARNING
from .ota import Update
from .sensors.kinds import made
from .store import Store
from .talk import STAMP, Talk
from .watch import Watch

try:
    from time import sleep_ms, ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const, sleep_ms, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from ..loader.files import Files
    from ..loader.slots import Slots
    from .log import Log
    from .senml import Measured
    from .settings import Settings

    class Board(Protocol):
        """What board.py has of it."""

        def seconds(self) -> int: ...
        def feed(self) -> None: ...
        def memory(self) -> bytes: ...
        def keep(self, kept: bytes) -> None: ...
        def join(self, watch: Watch) -> None: ...
        def leave(self) -> None: ...
        def transport(self) -> Any: ...


READING_OCTETS = 280
UNSAVED_MAX = 4
SKIP_MAX = 63
SAFE_SLEEP_MS = 600_000
SLEEP_MS_MIN = 1_000
STORE_PATH = "/store"

_MEASURE_MS = const(4_000)
_PART_MS = const(500)
_INT_MAX = const(0x7FFFFFFF)


class Node:
    def __init__(
        self,
        board: "Board",
        files: "Files",
        slots: "Slots",
        settings: "Settings",
        log: "Log",
        secrets: "dict[str, Any]",
        is_safe: bool,
    ) -> None:
        self._board = board
        self._files = files
        self._slots = slots
        self._settings = settings
        self._log = log
        self._is_safe = is_safe
        self._secrets = secrets
        self._update = Update(files, slots, secrets.get("update_key", b""))
        self._store: Store | None = None
        self.restarts = False  # an update is in its slot

    def wake(self) -> int:
        """For how many milliseconds to sleep now."""
        start = ticks_ms()
        self._watch = Watch(self._board.feed, self._settings.budget_s * 1000)
        kept = self._kept = Kept()
        kept.put_back(self._board.memory())
        self._board.keep(b"")
        self._clock = self._clock_of(kept)
        self._unsaved: list[bytes] = []
        if not self._is_safe:
            self._store = Store(self._files, STORE_PATH)
            self._store.sent(kept.oldest_unsent - 1)
            self._measure()
        talk = Talk(
            settings=self._settings,
            kept=kept,
            clock=self._clock,
            slots=self._slots,
            watch=self._watch,
            log=self._log,
            files=self._files,
            update=self._update,
            secrets=self._secrets,
            is_safe=self._is_safe,
        )
        if self._must_talk(talk):
            self._talk(talk)
        if self._store:
            kept.oldest_unsent = self._store.oldest_unsent
        self._slots.lived(self._is_safe)
        kept.seconds = self._board.seconds()
        kept.offset_s, kept.learnt_at = self._clock.offset_s, self._clock.learnt_at
        self._board.keep(kept.take())
        if self._is_safe:
            return SAFE_SLEEP_MS
        awake_ms: int = ticks_diff(ticks_ms(), start)
        return max(SLEEP_MS_MIN, self._settings.interval_s * 1000 - awake_ms)

    def _clock_of(self, kept: Kept) -> Clock:
        now = self._board.seconds()
        if not kept.era or now < kept.seconds:  # the board's clock began again
            kept.era = getrandbits(16) or 1
            kept.offset_s = None
            kept.reported_at = kept.told_at = 0
        clock = Clock(self._board.seconds, kept.era)
        clock.offset_s, clock.learnt_at = kept.offset_s, kept.learnt_at
        return clock

    # Measuring

    def _measure(self) -> None:
        measured = self._measured()
        if not measured or not self._is_worth_it(measured):
            return
        kept = self._kept
        kept.reported_at = self._clock.seconds()
        for name, _, value, places in measured:
            if name in self._settings.thresholds and -_INT_MAX <= value <= _INT_MAX:
                kept.last[name] = value, places
        part: list[Measured] = []
        for each in measured:
            if part and len(senml.records(part + [each])) > READING_OCTETS:
                self._keep(part)
                part = []
            part.append(each)
        self._keep(part)

    def _measured(self) -> "list[Measured]":
        self._watch.step("measure", _MEASURE_MS)
        sensors = []
        wait_ms = 0
        for spec in self._settings.sensors:
            try:
                sensor = made(spec, self._board)
                wait_ms = max(wait_ms, sensor.start())
                sensors.append((spec, sensor))
            except Exception as error:  # of a driver, which may be the user's
                self._blame(spec, error)
        while wait_ms > 0 and self._watch.left():
            sleep_ms(min(wait_ms, _PART_MS))
            wait_ms -= _PART_MS
        measured: list[Measured] = []
        for spec, sensor in sensors:
            try:
                measured += sensor.read()
            except Exception as error:
                self._blame(spec, error)
        return measured

    def _blame(self, spec: "dict[str, Any]", error: Exception) -> None:
        name = spec.get("name", spec.get("kind")) if isinstance(spec, dict) else spec
        self._log(ERROR, f"sensor {name}: " + repr(error))

    def _is_worth_it(self, measured: "list[Measured]") -> bool:
        """Whether it differs from what was reported last, where it matters."""
        thresholds = self._settings.thresholds
        kept = self._kept
        silent_s = self._clock.seconds() - kept.reported_at
        if not thresholds or not kept.reported_at or silent_s >= self._settings.report_s:
            return True
        for name, _, value, places in measured:
            if name in thresholds:
                if name not in kept.last:
                    return True
                last, last_places = kept.last[name]
                if abs(value / 10**places - last / 10**last_places) >= thresholds[name]:
                    return True
        return False

    def _keep(self, measured: "list[Measured]") -> None:
        seconds, era = self._clock.stamp()
        reading = pack(STAMP, seconds, era, len(measured)) + senml.records(measured)
        assert self._store
        try:
            self._log(DEBUG, f"stored {self._store.append(reading)}")
        except OSError as error:
            self._log(ERROR, "flash: " + repr(error))
            self._unsaved.append(reading)
            del self._unsaved[:-UNSAVED_MAX]

    # Talking

    def _must_talk(self, talk: Talk) -> bool:
        kept = self._kept
        kept.ask_in = max(0, kept.ask_in - 1)
        kept.listen_in = max(0, kept.listen_in - 1)
        if kept.skip and not self._is_safe:
            kept.skip -= 1
            return False
        waiting = self._store.waiting if self._store else 0
        return bool(waiting or self._unsaved or not kept.listen_in or talk.is_state_due)

    def _talk(self, talk: Talk) -> None:
        try:
            talk.run(self._board, self._store, self._unsaved)
        except OSError as error:
            self._log(INFO if talk.heard else WARNING, self._watch.what + ": " + repr(error))
        finally:
            self._board.leave()
        self.restarts = talk.restarts
        kept = self._kept
        kept.silent = 0 if talk.heard else kept.silent + 1
        kept.skip = min((1 << min(kept.silent, 8)) - 1, SKIP_MAX)
