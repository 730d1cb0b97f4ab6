"""What runs on the nodes: MicroPython, and on CPython in tests."""
