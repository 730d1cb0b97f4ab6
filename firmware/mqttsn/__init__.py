"""MQTT-SN 1.2 for MicroPython nodes. Import the parts that you use: `mqttsn.client`, `mqttsn.udp`."""
