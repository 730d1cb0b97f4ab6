"""Calls of the host that answer with bytes or raise OSError; see hil/boards/wasi/services.py."""

import errno
from binascii import unhexlify

import host


def call(name, asked=""):
    answer = host.call(name, asked)
    if answer[:1] == "!":
        raise OSError(getattr(errno, answer[1:], errno.EIO))
    return answer


def octets(text):
    return unhexlify(text)
