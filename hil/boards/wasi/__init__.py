"""Real MicroPython, compiled to WebAssembly, as a board: 32-bit objects, a heap of a given size,
the board's flash in a folder, UDP to this machine, serial ports on terminals of this machine, deep
sleep, reset, and a power cut at an exact instruction.

- `machine.py`: one life of the interpreter, from power on to whatever ends it, in this process.
- `services.py`: what the interpreter asks of its host.
- `modules/`: what its programs import for that: `socket` and `machine`, as MicroPython has them.
- `__main__.py`, `board.py`: lives in processes of their own, which is how tests use boards.

Limits: no radio and no DTLS. The folder has this machine's file system, so what was written is
durable at once; what LittleFS would lose is not shown here. `hil` of pyproject.toml installs it.
"""
