"""Drivers: each module has a class `Sensor` with `start` and `read`; kinds.py says which there are.

`start` begins to measure and returns in how many milliseconds `read` has the values, so that
several measure at once. Both raise OSError when the sensor does not answer, or not as it should.
"""
