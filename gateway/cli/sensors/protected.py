"""What a simulated sensor with a key sends and hears: each packet in an envelope. No I/O.

The transport of the nodes (`firmware/mqttsn/protect.py`) does it, around two lists in place of a
socket. A sensor that is started again has lost its memory, and answers the gateway's question.
"""

from __future__ import annotations

from gateway.cli.sensors.library import protected_transport
from gateway.core.access.device_keys import DeviceKey
from gateway.core.protection.envelope import SCHEMES

HEARD_BYTES_MAX = 2048  # commands are short


class ProtectedPackets:
    gateways = 1  # of the transport inside, where nodes try one after the other
    index = 0

    def __init__(self, key: DeviceKey, scheme: str) -> None:
        """`scheme`: one of SCHEMES. Raises ImportError where its package is missing."""
        self._sent: list[bytes] = []
        self._heard: list[bytes] = []
        self._buffer = bytearray(HEARD_BYTES_MAX)
        self._transport = protected_transport(
            self, key.sender_id, key.secret, key.epoch, HEARD_BYTES_MAX, SCHEMES[scheme]
        )

    def sealed(self, packet: bytes) -> list[bytes]:
        """What is to be sent."""
        self._transport.send(bytearray(packet), len(packet))
        return self._taken()

    def opened(self, datagram: bytes) -> tuple[list[bytes], list[bytes]]:
        """Packets of the gateway, and what is to be sent at once. What is forged or was there
        before is neither.
        """
        self._heard.append(datagram)
        packets = []
        while size := self._transport.receive(self._buffer, 0):
            packets.append(bytes(self._buffer[:size]))
        return packets, self._taken()

    def _taken(self) -> list[bytes]:
        sent, self._sent = self._sent, []
        return sent

    # As the transport inside

    def send(self, frame: bytearray, size: int) -> None:
        self._sent.append(bytes(frame[:size]))

    def receive(self, buffer: bytearray, _wait_ms: int) -> int:
        if not self._heard:
            return 0
        datagram = self._heard.pop(0)
        size = min(len(datagram), len(buffer))
        buffer[:size] = datagram[:size]
        return size
