"""Protected packets: the protection envelope of the MQTT-SN 2.0 draft around MQTT-SN 1.2.

Pure. Imported only where a key of a device is configured; AES-CCM needs the package `cryptography`.
"""
