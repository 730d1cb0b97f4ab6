"""A BBC micro:bit (first edition) with its real firmware: MicroPython 1.9.2 on an emulated
Cortex-M0 with 16 KiB of RAM, of which programs have 9, and a real UART.

- `board.py`: power on, reset, power cut, and the flash that outlasts them.
- `wire.py`: the line between the board's UART and a serial port of this machine.

Limits: no radio, no display, no sensors (asking one hangs), no accelerometer. QEMU and the firmware
come from Debian: qemu-system-arm, firmware-microbit-micropython.
"""
