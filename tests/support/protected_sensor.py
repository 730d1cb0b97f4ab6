"""Sensors of the bench that protect their packets: each is at an address, with a key."""

from __future__ import annotations

from random import Random
from typing import Any

from gateway.core.access.device_keys import DeviceKey, DeviceKeys, sender_id_of
from gateway.core.addresses import address_behind, protected_address
from gateway.core.effects import Effect, Send, SendDatagram
from gateway.core.engine import EngineOptions
from gateway.core.protection.channel import Channel, Memory
from gateway.core.protection.envelope import parse
from gateway.core.protection.protection import ProtectionOptions
from gateway.frames import Forwarded, Frame, decode, encode
from tests.support.engine_bench import UPSTREAM, Bench


def key_of(name: str, epoch: int = 1) -> DeviceKey:
    secret = b"canary secret of %d " % epoch + name.encode()
    return DeviceKey(name, epoch, sender_id_of(name), secret)


class ProtectedBench(Bench):
    """`keys`: may be others from now on."""

    def __init__(self, *names: str, seed: int = 1, **options: Any) -> None:
        """`options`: of ProtectionOptions, but `engine` of EngineOptions."""
        self.keys = DeviceKeys(key_of(name) for name in names)
        self.datagrams: list[tuple[bytes, bytes]] = []  # of channels, to addresses
        self.protected: list[bytes] = []  # addresses of peers, for measurements
        engine = options.pop("engine", {})
        protection = ProtectionOptions(
            keys=lambda: self.keys, random=Random(seed).randbytes, **options
        )
        super().__init__(EngineOptions(UPSTREAM, protection=protection, **engine))

    def take(self, effects: list[Effect]) -> None:
        rest: list[Effect] = []
        self.engine.look_at_keys()
        for effect in effects:
            if isinstance(effect, SendDatagram):
                self.datagrams.append((effect.peer.address, effect.datagram))
            elif isinstance(effect, Send) and effect.peer.address.endswith(b"\xff"):
                sealed = self.engine.sealed(effect.peer.address, encode(effect.frame))
                if sealed is not None:
                    self.datagrams.append(sealed)
            else:
                rest.append(effect)
        super().take(rest)

    def datagrams_for(self, address: bytes) -> list[bytes]:
        found = [each for given, each in self.datagrams if given == address]
        self.datagrams = [each for each in self.datagrams if each[0] != address]
        return found


class ProtectedSensor:
    def __init__(
        self,
        bench: ProtectedBench,
        name: str,
        *,
        address: bytes = b"somewhere",
        node_id: bytes = b"",
        memory: Memory | None = None,
        epoch: int = 1,
        seed: int = 2,
        **given: int,
    ) -> None:
        """`node_id`: behind a forwarder at this address."""
        key = key_of(name, epoch)
        self.bench = bench
        self.through, self.node_id = address, node_id
        self.address = address_behind(address, node_id) if node_id else address
        self.peer = protected_address(self.address, key.sender_id)
        self.channel = Channel(
            sender_id=key.sender_id,
            secret=key.secret,
            epoch=epoch,
            random=Random(f"{name} {seed}").randbytes,
            memory=memory,
            is_device=True,
            **given,
        )
        self.sent: list[bytes] = []

    def say(self, *frames: Frame) -> list[Frame]:
        """What it hears at once, with all questions and answers."""
        heard: list[Frame] = []
        for frame in frames:
            self.put(self.channel.seal(encode(frame)))
            heard += self.hear()
        return heard

    def put(self, datagram: bytes) -> None:
        self.sent.append(datagram)
        if self.node_id:
            datagram = encode(Forwarded(self.node_id, datagram))
        self.bench.take(self.bench.engine.receive(0, [(self.through, datagram)], self.bench.at))

    def hear(self) -> list[Frame]:
        heard: list[Frame] = []
        while datagrams := self.bench.datagrams_for(self.address):
            for datagram in datagrams:
                opened = self.channel.open(parse(datagram), self.bench.at)
                if opened.packet:
                    heard.append(decode(opened.packet))
                if opened.reply:
                    self.put(opened.reply)
        return heard
