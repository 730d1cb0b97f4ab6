"""What a node says of itself, as JSON that is never longer than a frame.

The document is written into room that is taken before there is a client: a heap that is nearly full
has no such piece any more when there is one.
"""

import json

try:
    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const

BYTES_MAX = 391  # of a frame of 400, of which 9 are PUBLISH's own

_LETTERS_MAX = const(60)  # of a trouble (log.py)
_LETTERS_MIN = const(12)  # of one that is not left out
_ENDS = const(',"settings":,"update":,"trouble":[]}')


class State:
    def __init__(self) -> None:
        self._document = bytearray(BYTES_MAX)
        self._size = 0

    def put(self, name: str, value: object) -> None:
        """A member. Raises IndexError where it does not fit."""
        start = "," if self._size else "{"
        self._add(f'{start}"{name}":' + json.dumps(value, separators=(",", ":")))

    def _add(self, text: str) -> None:
        encoded = text.encode()
        start = self._size
        self._size += len(encoded)
        if self._size > BYTES_MAX:
            raise IndexError
        self._document[start : self._size] = encoded

    def finish(self, settings: str, update: str, trouble: list[str]) -> memoryview:
        """The document. The troubles are cut first, then left out from the last on, then the two
        answers are cut, the longer one first."""
        room = BYTES_MAX - self._size - len(_ENDS)
        while _size_of(settings) + _size_of(update) > room:
            if len(settings) > len(update):
                settings = settings[: len(settings) * 3 // 4]
            else:
                update = update[: len(update) * 3 // 4]
        room -= _size_of(settings) + _size_of(update)
        letters = _LETTERS_MAX
        while _size_of_all(trouble, letters) > room:
            letters -= 1
            if letters < _LETTERS_MIN:
                letters = _LETTERS_MAX
                trouble = trouble[:-1]
        self.put("settings", settings)
        self.put("update", update)
        self._add(',"trouble":[')
        for at, text in enumerate(trouble):
            self._add("," * (at > 0) + json.dumps(text[:letters]))
        self._add("]}")
        return memoryview(self._document)[: self._size]


def _size_of(text: str) -> int:
    return len(json.dumps(text).encode())


def _size_of_all(texts: list[str], letters: int) -> int:
    """With what is between them."""
    size = 0
    for text in texts:
        size += _size_of(text[:letters]) + (size > 0)
    return size
