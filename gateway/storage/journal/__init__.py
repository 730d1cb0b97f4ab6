"""The journal of readings: what is acknowledged is in here first, and survives a power cut.

Sessions are in state/; when a reading must be stored is decided in core/uplink/.
"""
