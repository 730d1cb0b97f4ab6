"""Serial lines without the line: bytes to MQTT-SN messages and back, and the text on a line.

MQTT-SN 1.2 defines no framing for serial lines; docs/serial.md has ours.
"""
