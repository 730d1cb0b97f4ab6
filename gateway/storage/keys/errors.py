"""What goes wrong with keys. No message has a part of a secret, nor of a line with one, in it."""


class KeysError(Exception):
    """Why the keys cannot be read or changed, in a sentence that says what to do."""


class KeyRefusedError(Exception):
    """Why a key cannot be added or changed; nothing is."""
