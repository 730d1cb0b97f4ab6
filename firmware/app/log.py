"""What a node says of itself: to its console, and the worst of it to those who read its state.

Levels as in syslog: 3 error, 4 warning, 6 information, 7 debugging. Limits: the last TROUBLE_MAX
warnings and errors of a life are kept, each cut to LINE_MAX characters.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ERROR, WARNING, INFO, DEBUG = 3, 4, 6, 7
TROUBLE_MAX = 4
LINE_MAX = 60
_LETTERS = {ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}


class Log:
    def __init__(self, level: int, write: "Callable[[str], object]" = print) -> None:
        self.level = level
        self.trouble: list[str] = []
        self._write = write

    def __call__(self, level: int, text: str) -> None:
        if level <= WARNING:
            self.trouble.append(text[:LINE_MAX])
            del self.trouble[:-TROUBLE_MAX]
        if level <= self.level:
            self._write(_LETTERS[level] + " " + text)
