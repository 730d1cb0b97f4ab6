"""What `loader/start.py` calls: the application from its first line to its sleep."""

import gc

from .board import Board
from .log import ERROR, INFO, Log
from .node import Node
from .settings import load, load_secrets
from .version import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..loader.files import Files
    from ..loader.slots import Slots

UNUSABLE_SLEEP_MS = 3_600_000


def run(files: "Files", slots: "Slots", is_safe: bool) -> None:
    """Returns to be restarted; where the board sleeps deeply it does not return from a sleep."""
    settings = load(files)
    secrets = load_secrets(files, settings)
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
