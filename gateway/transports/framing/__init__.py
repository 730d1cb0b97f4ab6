"""Serial lines without the line: bytes to MQTT-SN messages and back, and what a line says.

MQTT-SN 1.2 defines no framing for serial lines; docs/serial.md has ours.
"""
