"""What a listening socket takes of broadcasts: SEARCHGW, and nothing else.

A datagram that went to all must not be answered, or one datagram would make every gateway of a
network answer. So the kernel drops them, by a socket filter, before they take time or room in the
receive buffer. (A search is answered to its sender, as any that came to our address.) A sandbox may
forbid the filter, and then we are only less polite.
"""

from __future__ import annotations

import ctypes
import socket
import struct

from gateway.transports.options import set_option

_SO_ATTACH_FILTER = 26  # Linux, not in Python's socket module
_INSTRUCTION = struct.Struct("=HBBI")  # code, jump if true, jump if false, operand
_PROGRAM = struct.Struct("@HP")

_LOAD_OCTET, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x15, 0x06
_PACKET_TYPE = 0xFFFFF000 + 4  # SKF_AD_OFF + SKF_AD_PKTTYPE
_BROADCAST, _MULTICAST, _FROM_HERE_TO_MANY = 1, 2, 5  # PACKET_..., linux/if_packet.h
_MESSAGE_TYPE_AT = 9  # behind the UDP header and the length byte; what is shorter is dropped
_SEARCHGW = 0x01
_ALL, _NOTHING = 0xFFFFFFFF, 0

_INSTRUCTIONS = (
    (_LOAD_OCTET, 0, 0, _PACKET_TYPE),
    (_JUMP_IF_EQUAL, 2, 0, _BROADCAST),
    (_JUMP_IF_EQUAL, 1, 0, _MULTICAST),
    (_JUMP_IF_EQUAL, 0, 2, _FROM_HERE_TO_MANY),
    (_LOAD_OCTET, 0, 0, _MESSAGE_TYPE_AT),
    (_JUMP_IF_EQUAL, 0, 1, _SEARCHGW),
    (_RETURN, 0, 0, _ALL),
    (_RETURN, 0, 0, _NOTHING),
)


def refuse_broadcasts(listener: socket.socket) -> None:
    """The kernel copies the program, so nothing of it need be kept."""
    octets = b"".join(_INSTRUCTION.pack(*each) for each in _INSTRUCTIONS)
    program = ctypes.create_string_buffer(octets, len(octets))
    described = _PROGRAM.pack(len(_INSTRUCTIONS), ctypes.addressof(program))
    set_option(listener, socket.SOL_SOCKET, _SO_ATTACH_FILTER, described, "refusing broadcasts")
