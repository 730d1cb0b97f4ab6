"""This machine and installation: limits, causes of errors, version, threads.

Nothing in here knows MQTT or a sensor.
"""
