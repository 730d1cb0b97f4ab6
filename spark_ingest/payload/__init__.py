"""Payloads to points. Pure: `decode` raises UndecodableError and nothing else, on any bytes."""
