"""Tidegate: a gateway from MQTT-SN sensors to an MQTT 5 broker. docs/design.md has the layers."""
