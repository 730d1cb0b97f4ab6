"""Which of two applications runs, and what is done when it dies.

The application lies in a folder, /a or /b; an update goes to the other one and is on trial until
the gateway has acknowledged a reading of it. One small record says all that:

- A boot that is no wake from deep sleep counts as died, until a whole cycle of the application has
  passed. So a life that ends in an exception, at the watchdog or for want of power is counted, and
  an ordinary wake writes nothing.
- An application on trial that died DIED_MAX times, or has woken TRIAL_WAKES_MAX times without a
  good publish, is left for the former one, for good.
- One that is no more on trial and died DIED_MAX times is started in safe mode, in which it only
  reports, and takes settings and updates. After a cycle in safe mode it is tried once more. If safe
  mode dies as often, the application in the other folder is started in safe mode, by turns.

Limits: a node whose power goes more often than its cycle takes to complete is in safe mode then.
"""

from struct import calcsize, pack, unpack

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .files import Files

DIED_MAX = 3
TRIAL_WAKES_MAX = 12
PATH = "/boot"
DIGEST_OCTETS = 8  # of an image's SHA-256, to know it by

_LAYOUT = const(">BBBBB8s")
_VERSION = const(1)
_COUNT_MAX = const(255)
_EIO = const(5)


class Slots:
    def __init__(self, files: "Files") -> None:
        self._files = files
        self._slot = self._is_trial = self.died = self._wakes = 0
        self.tried = bytes(DIGEST_OCTETS)  # the image that was on trial last
        kept = files.load(PATH)
        if kept and len(kept) == calcsize(_LAYOUT) and kept[0] == _VERSION:
            _, self._slot, state, self.died, self._wakes, self.tried = unpack(_LAYOUT, kept)
            self._is_trial = state & 1
        self._saved = kept

    @property
    def name(self) -> str:
        return "ab"[self._slot]

    @property
    def other(self) -> str:
        return "ba"[self._slot]

    @property
    def is_trial(self) -> bool:
        return bool(self._is_trial)

    # From the loader

    def booted(self, is_wake: bool) -> bool:
        """Count this boot, and say whether it is to be in safe mode."""
        if self._is_trial:
            self._wakes += 1
            if self.died >= DIED_MAX or self._wakes > TRIAL_WAKES_MAX:
                self._slot ^= 1
                self._is_trial = self.died = 0
        is_safe = self.died >= DIED_MAX
        if self.died >= 2 * DIED_MAX:
            self._slot ^= 1
            self.died = DIED_MAX
        if is_wake:
            self._save()
        else:
            self.count()
        return is_safe

    def count(self) -> None:
        """One more that died, or will have if nothing else is heard."""
        self.died = min(self.died + 1, _COUNT_MAX)
        self._save()

    # From the application

    def lived(self, is_safe: bool) -> None:
        """A whole cycle has passed."""
        self.died = DIED_MAX - 1 if is_safe else 0
        self._save()

    def published(self) -> None:
        """The gateway has a reading of this application."""
        if self._is_trial:
            self._is_trial = 0
            self._save()

    def switch(self, digest: bytes) -> None:
        """From the next boot on the other one is on trial. Raises OSError if it is not."""
        self._slot ^= 1
        self._is_trial = 1
        self.died = self._wakes = 0
        self.tried = digest[:DIGEST_OCTETS]
        self._save()
        if self._files.load(PATH) != self._saved:
            raise OSError(_EIO)

    def _save(self) -> None:
        """On a flash that takes nothing the node goes on, and does not count."""
        kept = pack(
            _LAYOUT, _VERSION, self._slot, self._is_trial, self.died, self._wakes, self.tried
        )
        if kept != self._saved:
            self._saved = kept
            try:
                self._files.save(PATH, kept)
            except OSError:
                pass
