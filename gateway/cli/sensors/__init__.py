"""Simulated sensors that speak MQTT-SN over real UDP: for `tidegate demo` and `tidegate simulate`.

The rules of the protocol are in `client`, without I/O; `sensor` measures and obeys commands on top
of it; `sensor_link` gives each one a socket of its own.
"""
