"""Calls of the host that answer with octets or raise OSError; see hil/boards/wasi/services.py."""

from binascii import unhexlify

import host


def call(name, asked=""):
    answer = host.call(name, asked)
    if answer[:1] == "!":
        raise OSError(int(answer[1:]))
    return answer


def octets(text):
    return unhexlify(text)
