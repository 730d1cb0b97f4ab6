"""UDP sockets and multicast groups.

What a datagram means is decided in core/.
"""
