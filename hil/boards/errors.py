"""What boards raise."""


class BoardError(Exception):
    """The board did not do what was asked of it; the text holds what it said."""
