"""DTLS by programs that were not written here: `make dtls-test` builds them, each over the library
that its devices have, and runs all of MQTT-SN through them over a network that loses and copies.
"""
