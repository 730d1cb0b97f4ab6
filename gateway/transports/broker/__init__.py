"""The TCP or TLS connection to the broker.

The MQTT on it is in core/mqtt/.
"""
