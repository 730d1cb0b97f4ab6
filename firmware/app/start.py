"""What `loader/start.py` calls: the application from its first line to its sleep."""

import gc
import sys

from .board import Board
from .log import ERROR, INFO, Log
from .node import Node
from .version import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..loader.files import Files
    from ..loader.slots import Slots
    from .settings import Settings

UNUSABLE_SLEEP_MS = 3_600_000


def run(files: "Files", slots: "Slots", is_safe: bool) -> None:
    """Returns to be restarted; where the board sleeps deeply it does not return from a sleep."""
    settings, secrets = _given(files)
    without_given()
    log = Log(settings.log_level)
    board = Board(files, settings, secrets)
    log(INFO, f"{settings.id} {NUMBER} in {slots.name}" + is_safe * ", safe mode")
    for problem in settings.problems:
        log(ERROR, problem)
    if not settings.is_usable:
        slots.lived(is_safe)
        board.sleep(UNUSABLE_SLEEP_MS)
        return
    node = Node(board, files, slots, settings, log, secrets, is_safe)
    while True:
        pause_ms = node.wake()
        if node.restarts:
            board.restart()
        board.sleep(pause_ms)
        if is_safe:
            return
        gc.collect()


def _given(files: "Files") -> "tuple[Settings, dict[str, Any]]":
    from .given import load, load_secrets

    settings = load(files)
    return settings, load_secrets(files, settings)


def without_given() -> None:
    """Its 4 KiB of the heap are free then: nothing else refers to that module."""
    package = __name__[: __name__.rindex(".")]
    del sys.modules[package + ".given"]
    delattr(sys.modules[package], "given")
