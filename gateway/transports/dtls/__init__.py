"""DTLS 1.2 in front of a UDP socket: who is at an address has shown a key or a certificate.

Imported only where a listener wants it.
"""
