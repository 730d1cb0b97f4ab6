"""The rules of the gateway, pure: inputs are calls, time is an argument, answers are effects.

No clock, socket, disk, thread or random source; app/shell.py carries effects out.
"""
