"""What boards raise."""


class BoardError(Exception):
    """The board did not do what was requested; the text holds what it printed."""
