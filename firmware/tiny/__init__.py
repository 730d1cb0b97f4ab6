"""The sensor for boards with 16 KiB of memory: one file, for MicroPython from 1.9.2 on."""
