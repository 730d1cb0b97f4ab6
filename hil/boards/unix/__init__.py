"""Real MicroPython of this machine (its Unix port, Debian's package `micropython`) as a board: the
native sockets and serial ports of that port, and a flash with a real LittleFS.

    power.py     its power switch: a process for each wake
    flash.py     what lies on it, put there and formatted by MicroPython itself
    modules/     what runs on it beside its program: `machine`, its flash, its first lines
"""
