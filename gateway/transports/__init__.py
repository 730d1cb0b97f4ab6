"""How bytes come in and go out: UDP, serial lines, the broker, clocks.

What the bytes mean is decided in core/.
"""
