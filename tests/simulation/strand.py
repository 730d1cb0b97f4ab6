"""A function that waits, as a thread that runs only while the world stands still for it.

So the blocking client of a node lives in virtual time: at any moment either the world runs or one
strand, and who runs next is the agenda's to say. A world with strands is as repeatable as others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SWITCH_S_MAX = 60.0  # longer than any computation between two waits


class PowerOffError(BaseException):
    """Ends a strand wherever it waits; no program catches it."""


class SimulatedThread:
    def __init__(self, run: Callable[[], None]) -> None:
        self.has_ended = False
        self._run = run
        self._error: BaseException | None = None
        self._is_off = False
        self._go = threading.Semaphore(0)
        self._stop = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    # From the world

    def resume(self) -> None:
        """Let it run until it waits again; raises what it raised."""
        if self.has_ended:
            return
        self._go.release()
        if not self._stop.acquire(timeout=SWITCH_S_MAX):
            raise TimeoutError("a strand runs and runs")
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def end(self) -> None:
        """Take its power; what it was about to do is not done."""
        self._is_off = True
        if threading.current_thread() is not self._thread:
            self.resume()

    # From within

    def pause(self) -> None:
        self._stop.release()
        self._go.acquire()
        if self._is_off:
            raise PowerOffError

    def _live(self) -> None:
        self._go.acquire()
        try:
            if not self._is_off:
                self._run()
        except PowerOffError:
            pass
        except BaseException as error:
            self._error = error
        self.has_ended = True
        self._stop.release()
