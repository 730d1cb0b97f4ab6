"""All protected devices of a gateway: which channel an envelope is for, and what it costs to ask.

Rule 1: a protected peer is an address of its own, behind that of its transport or of the node that
        it is: plain and protected packets from one place are of two peers.
Rule 2: what a key is not known for takes no memory. There is one channel for each key, and it is
        made when the first right envelope comes, or is to be sent.
Rule 3: who is no client yet shares what there is for those whose tags turn out wrong, so that a
        flood of forged envelopes leaves the time to serve those that are.
Rule 4: where packets must be protected, plain ones are dropped, but for SEARCHGW, and for the
        encapsulation of a forwarder, in which the envelope is.

Limits: as many channels as keys. Of forged envelopes as many a second as CONNECTs of unknown peers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from gateway.core.access.device_keys import DeviceKey, DeviceKeys
from gateway.core.addresses import PROTECTED_TAIL_BYTES, protected_address, unprotected
from gateway.core.clients.token_bucket import TokenBucket
from gateway.core.drop_reasons import Reason
from gateway.core.protection.channel import Channel, Memory, Random, Verdict
from gateway.core.protection.envelope import (
    FIELDS_AT,
    FIELDS_END,
    SCHEMES,
    SENDER_AT,
    SENDER_END,
    SHORT_HEAD_BYTES,
    Envelope,
    parse,
)
from gateway.core.state_records import Change, ProtectionDeleted, ProtectionRecord
from gateway.frames import ENVELOPE_KIND, Forwarded, MalformedFrame, SearchGw, kind_of

_ENCAPSULATIONS = (ENVELOPE_KIND, Forwarded.KIND)
_VERDICTS = {
    Verdict.FORGED: Reason.FORGED,
    Verdict.REPLAYED: Reason.REPLAYED,
    Verdict.UNFRESH: Reason.UNFRESH,
}


def no_link(_link: int) -> bool:
    return False


def sender_of(_link: int, address: bytes) -> bytes:
    """Where no other address ends like that of a protected peer, as in tests."""
    return unprotected(address, 0)[1]


@dataclass(frozen=True, slots=True)
class ProtectionOptions:
    """`random`: so many random bytes. `is_required`: on this link. `sender_of`: the sender id of a
    protected peer, by link and address; empty for others. `is_state_whole`: whether no row of the
    former run may be missing or an older one, as after a restore.
    """

    keys: Callable[[], DeviceKeys]
    random: Random
    schemes: Collection[int] = frozenset(SCHEMES.values())
    tag_bytes_min: int = 8
    is_required: Callable[[int], bool] = no_link
    sender_of: Callable[[int, bytes], bytes] = sender_of
    is_state_whole: bool = True


@dataclass(slots=True)
class Received:
    """`address`: that of the protected peer. `packet`: empty if there is none to look at."""

    address: bytes
    packet: bytes = b""
    reply: bytes = b""
    dropped: Reason | None = None
    detail: str = ""


class Protection:
    def __init__(
        self, options: ProtectionOptions, forged_per_s_max: int, forged_at_once_max: int
    ) -> None:
        self._options = options
        self._keys = DeviceKeys()
        self._channels: dict[tuple[bytes, int], Channel] = {}
        self._memories: dict[tuple[bytes, int], Memory] = {}  # of the former run
        self._latest: dict[bytes, Channel] = {}  # in which a sender was heard last
        self._changes: list[ProtectionDeleted] = []
        self._changed: dict[tuple[bytes, int], Channel] = {}
        self._forged = TokenBucket(forged_per_s_max, forged_at_once_max)
        self.is_held = False

    # After a restart

    def hold(self) -> None:
        """Until `release` nothing is sealed, and nothing may be opened: what `restore` has returned
        is not durable yet, and a power cut would bring the same counters again.
        """
        self.is_held = True

    def release(self) -> None:
        self.is_held = False

    def restore(self, records: Iterable[ProtectionRecord]) -> list[Change]:
        """Returns what is to be saved before anything is sent or received."""
        changes: list[Change] = []
        for each in records:
            key = (each.sender_id, each.epoch)
            if not self._options.is_state_whole:
                changes.append(ProtectionDeleted(*key))
                continue
            self._memories[key] = Memory(
                each.series,
                each.next_counter,
                each.received_series,
                each.bound,
                each.scheme,
                each.tag_bytes,
            )
        self._use(self._options.keys())
        for sender_id, epoch in sorted(self._memories, key=lambda each: each[1]):
            channel = self._channel_of(sender_id, epoch)
            assert channel is not None, "memories without a key were dropped"
            channel.reserve()
            self._note_change(sender_id, epoch, channel)
            self._latest[sender_id] = channel
        return changes + self.take_changes()

    def at_end(self) -> list[Change]:
        """What is to be saved when nothing more is sent or received."""
        return [
            _record(*key, channel.memory_at_end())
            for key, channel in self._channels.items()
            if channel.memory() != Memory()
        ]

    def look_at_keys(self) -> None:
        """Others may be valid now. Before `open_next`, `open` and `seal`, once for all that comes
        or goes at once.
        """
        keys = self._options.keys()
        if keys is not self._keys:
            self._use(keys)

    # From sensors

    def refuses_plain(self, link: int, datagram: bytes) -> bool:
        if not self._options.is_required(link):
            return False
        return kind_of(datagram) not in (Forwarded.KIND, SearchGw.KIND)

    def open_next(
        self, address: bytes, datagram: bytes, members: Collection[bytes]
    ) -> tuple[bytes, bytes] | None:
        """The peer and its packet, where an envelope of a client is the next one after what it sent
        last, as nearly all are: with nothing to answer, and nothing to be saved. None, and nothing
        was done, for all others: `open` does the same, and all else.
        """
        size = len(datagram)
        if size <= SHORT_HEAD_BYTES or datagram[0] != size:
            return None
        channel = self._latest.get(datagram[SENDER_AT:SENDER_END])
        if channel is None or channel.heard != datagram[FIELDS_AT:FIELDS_END]:
            return None
        peer = address + channel.peer_tail
        if peer not in members:
            return None
        packet = channel.open_next(datagram)
        return None if packet is None else (peer, packet)

    def open(
        self, address: bytes, datagram: bytes, members: Collection[bytes], now: float
    ) -> Received:
        """`datagram`: of the type of an envelope. `members`: addresses on its link that clients
        have.
        """
        try:
            envelope = parse(datagram)
        except MalformedFrame as error:
            return Received(address, dropped=Reason.MALFORMED, detail=str(error))
        sender_id = envelope.sender_id
        peer = protected_address(address, sender_id)
        problem = self._unsupported(envelope)
        if problem:
            return Received(
                peer, dropped=Reason.NOT_SUPPORTED, detail=f"sender {sender_id.hex()}: {problem}"
            )
        epoch = int.from_bytes(envelope.material[:2], "big")
        channel = self._channel_of(sender_id, epoch)
        if channel is None:
            detail = f"sender {sender_id.hex()}, key epoch {epoch}"
            return Received(peer, dropped=Reason.UNKNOWN_SENDER, detail=detail)
        is_member = peer in members
        if not is_member and not self._forged.has(now):
            detail = "envelopes of unknown peers, after too many forged ones"
            return Received(peer, dropped=Reason.TOO_MANY_PACKETS, detail=detail)
        try:
            opened = channel.open(envelope, now)
            if channel.has_changed:
                self._note_change(sender_id, epoch, channel)
            packet = opened.packet
            if packet and kind_of(packet) in _ENCAPSULATIONS:
                raise MalformedFrame("an encapsulation inside of an envelope")
        except MalformedFrame as error:
            detail = f"sender {sender_id.hex()}: {error}"
            return Received(peer, dropped=Reason.MALFORMED, detail=detail)
        if opened.verdict is Verdict.FRESH:
            self._latest[sender_id] = channel
            return Received(peer, packet, opened.reply)
        if opened.verdict is Verdict.FORGED and not is_member:
            self._forged.take(now)
        detail = f"sender {sender_id.hex()}, key epoch {epoch}"
        return Received(peer, b"", opened.reply, _VERDICTS[opened.verdict], detail)

    # To sensors

    def seal(self, peer: bytes, datagram: bytes) -> tuple[bytes, bytes] | None:
        """For the address of a protected peer: where to send it, and in its envelope. None for one
        whose key is there no more, or which speaks a scheme that is no more among those allowed,
        and while it is held.
        """
        if self.is_held:
            return None
        sender_id = peer[-PROTECTED_TAIL_BYTES:-1]
        channel = self._latest.get(sender_id)
        if channel is None:
            known = self._keys.of_sender(sender_id)
            if not known:
                return None
            channel = self._channel(known[0])
        if channel.scheme not in self._options.schemes:
            return None
        sealed = channel.seal(datagram)
        if channel.has_changed:
            self._note_change(sender_id, channel.epoch, channel)
        return peer[:-PROTECTED_TAIL_BYTES], sealed

    # For the state

    def take_changes(self) -> list[Change]:
        """What is to be saved since the last time; mostly nothing."""
        if not self._changed and not self._changes:
            return []
        changes: list[Change] = [*self._changes]
        changes += [_record(*key, each.memory()) for key, each in self._changed.items()]
        self._changes, self._changed = [], {}
        return changes

    def _note_change(self, sender_id: bytes, epoch: int, channel: Channel) -> None:
        channel.has_changed = False
        self._changed[sender_id, epoch] = channel

    # Keys

    def _unsupported(self, envelope: Envelope) -> str:
        options = self._options
        if envelope.scheme not in options.schemes:
            return f"scheme 0x{envelope.scheme:02x}"
        if envelope.tag_bytes < options.tag_bytes_min:
            return f"a tag of {8 * envelope.tag_bytes} bits"
        if envelope.counter is None or len(envelope.material) != 4:
            return "without a material and a counter of 4 bytes each"
        return ""

    def _use(self, keys: DeviceKeys) -> None:
        """Other keys than before: what was of a key that is no more is forgotten."""
        self._keys = keys
        for sender_id, epoch in {**self._memories, **self._channels}:
            secrets = {each.epoch: each.secret for each in keys.of_sender(sender_id)}
            channel = self._channels.get((sender_id, epoch))
            if epoch in secrets and (channel is None or channel.secret == secrets[epoch]):
                continue
            self._channels.pop((sender_id, epoch), None)
            self._memories.pop((sender_id, epoch), None)
            self._changed.pop((sender_id, epoch), None)
            self._latest.pop(sender_id, None)
            self._changes.append(ProtectionDeleted(sender_id, epoch))

    def _channel_of(self, sender_id: bytes, epoch: int) -> Channel | None:
        """None where there is no such key."""
        found = self._channels.get((sender_id, epoch))
        if found is not None:
            return found
        for key in self._keys.of_sender(sender_id):
            if key.epoch == epoch:
                return self._channel(key)
        return None

    def _channel(self, key: DeviceKey) -> Channel:
        found = self._channels.get((key.sender_id, key.epoch))
        if found is None:
            found = self._channels[key.sender_id, key.epoch] = Channel(
                sender_id=key.sender_id,
                secret=key.secret,
                epoch=key.epoch,
                random=self._options.random,
                memory=self._memories.pop((key.sender_id, key.epoch), None),
            )
            found.has_changed = False
        return found


def _record(sender_id: bytes, epoch: int, memory: Memory) -> ProtectionRecord:
    return ProtectionRecord(
        sender_id=sender_id,
        epoch=epoch,
        series=memory.series,
        next_counter=memory.next_counter,
        received_series=memory.received_series,
        bound=memory.bound,
        scheme=memory.scheme,
        tag_bytes=memory.tag_bytes,
    )
