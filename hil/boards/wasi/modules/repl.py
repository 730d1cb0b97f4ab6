"""A REPL on UART 0, as boards have it on their console, for tools such as mpremote.

The interpreter's own needs a terminal; this one stands in for it: raw mode with paste, soft reset,
/main.py at its start and after that. Snippets run on the real interpreter, in globals of their own,
whose `print` goes to the line. What it does not have: lines typed at the prompt, and Ctrl-C while
something runs; one that came before is obeyed at the start.
"""

import io
import select
import sys

from machine import UART

WINDOW = 32  # of raw paste, in bytes
BANNER = b"raw REPL; CTRL-B to exit\r\n>"
PROMPT = b"\r\nMicroPython\r\n>>> "


class Repl:
    def __init__(self):
        self._uart = UART(0)
        self._poll = select.poll()
        self._poll.register(self._uart, select.POLLIN)
        self._came = b""
        self._names = {}

    def run(self):
        self._soft_reset(b"")
        while True:
            octet = self._octet()
            if octet == 1:
                self._raw()
                self._write(PROMPT)
            elif octet == 4:
                self._soft_reset(b"\r\nMPY: soft reboot\r\n")
            elif octet == 3:
                self._write(b"\r\n>>> ")

    def _soft_reset(self, said):
        self._write(said)
        self._clear()
        text = ""
        if 3 not in (self._uart.read(64) or b""):  # or it is stopped as it begins
            try:
                with open("/main.py") as file:
                    text = file.read()
            except OSError:
                pass
        self._write(self._run(text))
        self._write(PROMPT)

    def _clear(self):
        self._names = {"__name__": "__main__", "print": self._print}

    def _raw(self):
        self._write(BANNER)
        held = b""
        while True:
            octet = self._octet()
            if octet == 2:
                return
            if octet == 1:
                self._write(BANNER)
                held = b""
            elif octet == 3:
                held = b""
            elif octet == 4 and held:
                self._answer(held)
                held = b""
            elif octet == 4:
                self._write(b"OK\r\nMPY: soft reboot\r\n")
                self._clear()
                self._write(BANNER)
            elif octet == 5 and not held and self._octet() == 65 and self._octet() == 1:
                self._pasted()
            else:
                held += bytes((octet,))

    def _pasted(self):
        self._write(b"R\x01" + bytes((WINDOW, 0)) + b"\x01")
        held = b""
        while True:
            octet = self._octet()
            if octet == 4:
                break
            held += bytes((octet,))
            if len(held) % WINDOW == 0:
                self._write(b"\x01")
        self._write(b"\x04")
        self._write(b"\x04" + self._run(held.decode()) + b"\x04>")

    def _answer(self, held):
        self._write(b"OK")
        self._write(b"\x04" + self._run(held.decode()) + b"\x04>")

    def _run(self, text):
        """What it raised."""
        try:
            exec(text, self._names)
        except Exception as error:
            told = io.StringIO()
            sys.print_exception(error, told)
            return told.getvalue().replace("\n", "\r\n").encode()
        return b""

    def _print(self, *things, sep=" ", end="\n"):
        text = sep.join(str(each) for each in things) + end
        self._write(text.replace("\n", "\r\n").encode())

    def _octet(self):
        while not self._came:
            for _ in self._poll.ipoll(1000):
                self._came = self._uart.read(64) or b""
        octet = self._came[0]
        self._came = self._came[1:]
        return octet

    def _write(self, octets):
        while octets:
            octets = octets[self._uart.write(octets) :]


def run():
    Repl().run()
