"""One who may send any frame from any address but the sensors' own, and sees nothing.

It knows the client ids and the filters (of further ones a sensor would hear more than it wants,
which is not held), and acts where a sensor has a session: in its name it connects, wakes it up,
lets it leave, sleep and die, changes its will and its subscriptions, and guesses message ids. What
is sent to its addresses is lost. It does not know which port a sensor has, so it cannot write a
sensor's address on its frames; docs/security.md has what that would do.

With dice of its own, so that no other world is another one for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from gateway.core.values import Peer
from gateway.frames import (
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    Pingreq,
    Puback,
    Regack,
    Register,
    Subscribe,
    Unsubscribe,
    WillMsg,
    WillMsgUpd,
    WillTopic,
    WillTopicUpd,
    encode,
)
from tests.simulation.agenda import Agenda
from tests.simulation.plan import CALM_AT_S, SensorPlan

ADVERSARY = b"adversary"  # what its addresses begin with
ATTACKS_MAX = 25
FRAMES_MAX = 5
PAUSE_S_MAX = 3.0
ADDRESSES = 3
GUESSES = 0.1  # of the attacks: each has a chance of 1 in 65,535
FORWARDED = 0.1

Receive = Callable[[bytes, bytes], None]
# What a client has subscribed to, with the QoS of each; None where it has no session to lose.
FiltersOf = Callable[[str], Mapping[str, int] | None]


def is_adversary(peer: Peer) -> bool:
    return peer.address.startswith(ADVERSARY)


class Adversary:
    def __init__(self, seed: int, sensors: list[SensorPlan], agenda: Agenda) -> None:
        self._dice = Random(f"adversary {seed}")
        self._sensors = sensors
        self._agenda = agenda
        self.attacks = 0

    def fill(self, filters_of: FiltersOf, receive: Receive) -> None:
        """Attack now and then until the calm begins, sensors for which that makes sense."""
        for _ in range(self._dice.randint(5, ATTACKS_MAX)):
            at = self._dice.uniform(1.0, CALM_AT_S - FRAMES_MAX * PAUSE_S_MAX)
            self._agenda.at(at, self._attack, (filters_of, receive))

    def _attack(self, how: tuple[FiltersOf, Receive]) -> None:
        filters_of, receive = how
        dice = self._dice
        victim = dice.choice(self._sensors)
        filters = filters_of(victim.client_id)
        if filters is None:
            return
        self.attacks += 1
        number = dice.randrange(ADDRESSES)
        address = b"%s %d of %s" % (ADVERSARY, number, victim.client_id.encode())

        def arrive(datagram: bytes) -> None:
            if filters_of(victim.client_id) is not None:
                receive(address, datagram)

        after_s = 0.0
        for frame in self._frames(victim, filters):
            datagram = encode(frame)
            if dice.random() < FORWARDED:
                datagram = encode(Forwarded(b"\1", datagram))
            self._agenda.after(after_s, arrive, datagram)
            after_s += dice.choice((0.0, dice.uniform(0.0, PAUSE_S_MAX)))

    def _frames(self, victim: SensorPlan, filters: Mapping[str, int]) -> list[Frame]:
        dice = self._dice
        name = victim.client_id.encode()
        keep_alive_s = dice.choice((1, 5, 60))
        first: list[Frame] = [
            Connect(name, keep_alive_s, clean_session=True),
            Connect(name, keep_alive_s, clean_session=False),
            Connect(name, keep_alive_s, will=True, clean_session=dice.random() < 0.5),
            Pingreq(name),
        ]
        frames = [dice.choice(first)]
        count = dice.randint(0, FRAMES_MAX)
        frames += [dice.choice(self._following(filters, first)) for _ in range(count)]
        if dice.random() < GUESSES:
            number = dice.randint(1, 0xFFFF)
            frames.append(dice.choice((Puback(1, number, 0), Regack(1, number, 0))))
        return frames

    def _following(self, filters: Mapping[str, int], first: list[Frame]) -> list[Frame]:
        known = [
            frame
            for topic_filter in filters
            for frame in (
                Unsubscribe(7, topic_filter.encode()),
                Subscribe(8, topic_filter.encode(), (filters[topic_filter] + 1) % 3),
            )
        ]
        return [
            *known,
            *first,
            Pingreq(),
            Disconnect(),
            Disconnect(self._dice.choice((1, 5, 60))),
            Register(0, 9, b"forged"),
            WillTopic(b"forged"),
            WillMsg(b"forged"),
            WillTopicUpd(),
            WillTopicUpd(b"forged"),
            WillMsgUpd(b"forged"),
        ]
