"""A client of one session, for the stories of this folder: says frames, hears frames, waits."""

from __future__ import annotations

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    ConnectSaved,
    DeliverySaved,
    Dropped,
    Save,
    Send,
    StateChanged,
    WhenSaved,
)
from gateway.core.events import Output, PublishWill
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import Change, ClientId, State
from gateway.core.values import Message, Peer, Reading, SubscribeTo
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Puback,
    Publish,
    Regack,
    Register,
    ReturnCode,
    Subscribe,
    TopicIdType,
)

DEV1 = ClientId("dev1")
HERE = Peer(0, b"here")
ELSEWHERE = Peer(0, b"elsewhere")
PREDEFINED = PredefinedTopics.of({"sensors/boot": 7})


class Client:
    """`effects` are those of the last call, but for what is to be saved, which is in `saved`; what
    a method returns is what came over the air. The disk is as fast as can be.
    """

    def __init__(
        self, options: SessionOptions | None = None, predefined: PredefinedTopics = PREDEFINED
    ) -> None:
        self.session = Session(
            client_id=DEV1, peer=HERE, options=options or SessionOptions(), predefined=predefined
        )
        self.effects: list[Output] = []
        self.saved: list[Change] = []

    def state(self) -> State:
        return self.session.state

    def says(self, frame: Frame, at: float = 0.0, peer: Peer = HERE) -> list[Frame]:
        if isinstance(frame, Connect):
            return self.heard(self.session.connect(frame, peer, at))
        return self.heard(self.session.receive(frame, at))

    def is_sent(
        self, topic: str, payload: bytes = b"on", qos: int = 1, at: float = 0.0
    ) -> list[Frame]:
        return self.heard(self.session.deliver(Message(topic, payload, qos), at))

    def waits(self, until: float) -> list[tuple[float, Frame]]:
        """What comes meanwhile, with its times."""
        heard: list[tuple[float, Frame]] = []
        effects: list[Output] = []
        while (at := self.session.wake_at()) <= until:
            heard += [(at, frame) for frame in self.heard(self.session.handle_time(at))]
            effects += self.effects
            assert self.session.wake_at() > at, "a timer that does not move fires for ever"
        self.effects = effects
        return heard

    def heard(self, effects: list[Output]) -> list[Frame]:
        self.saved = []
        self.effects = self._kept(effects)
        return [effect.frame for effect in self.effects if isinstance(effect, Send)]

    def _kept(self, effects: list[Output]) -> list[Output]:
        """The effects, with what follows at once on what is saved at once."""
        done: list[Output] = []
        for effect in effects:
            if isinstance(effect, Save):
                self.saved.append(effect.change)
            elif isinstance(effect, WhenSaved):
                for waited in effect.then:
                    done += self._kept(self._follows(waited))
            else:
                done.append(effect)
        return done

    def _follows(self, waited: Output) -> list[Output]:
        if isinstance(waited, ConnectSaved):
            return self.session.admitted(waited, self.session.last_received_at)
        assert isinstance(waited, DeliverySaved)
        return self.session.kept(waited, self.session.last_received_at)

    # What else the last call brought

    @property
    def readings(self) -> list[Reading]:
        readings = [effect for effect in self.effects if isinstance(effect, Reading)]
        return readings + [
            effect.will for effect in self.effects if isinstance(effect, PublishWill)
        ]

    @property
    def wishes(self) -> list[SubscribeTo]:
        return [effect for effect in self.effects if isinstance(effect, SubscribeTo)]

    @property
    def drops(self) -> list[Reason]:
        return [effect.reason for effect in self.effects if isinstance(effect, Dropped)]

    @property
    def moves(self) -> list[State]:
        return [effect.after for effect in self.effects if isinstance(effect, StateChanged)]

    # Openings of many stories

    def reads(
        self, payload: bytes, message_id: int = 1, qos: int = 1, at: float = 0.0, dup: bool = False
    ) -> list[Reading]:
        """PUBLISH to topic id 1, and the readings that go on because of it."""
        self.says(Publish(1, message_id, payload, qos, dup=dup), at)
        return self.readings

    def settles(self, reading: Reading) -> list[Frame]:
        return self.heard(self.session.acknowledged(reading))

    def subscribes(
        self,
        topic: bytes,
        kind: TopicIdType = TopicIdType.NORMAL,
        qos: int = 1,
        message_id: int = 100,
    ) -> list[Frame]:
        """SUBSCRIBE, and what comes when the broker grants it."""
        assert self.says(Subscribe(message_id, topic, qos, topic_id_type=kind)) == []
        return self.heard(self.session.subscribed(self.wishes[0], ReturnCode.ACCEPTED))

    def sleeps(self, duration_s: int = 600, at: float = 0.0) -> Client:
        assert self.says(Disconnect(duration_s), at) == [Disconnect()]
        return self

    def wakes(self, at: float = 0.0) -> list[Frame]:
        return self.says(Pingreq(DEV1.encode()), at)


def connected(
    keep_alive_s: int = 0, options: SessionOptions | None = None, topics: tuple[str, ...] = ("a/b",)
) -> Client:
    """Active, in a session that stays, with topics registered as 1, 2, ..."""
    client = Client(options)
    client.says(Connect(DEV1.encode(), keep_alive_s))
    for topic_id, topic in enumerate(topics, 1):
        answer = client.says(Register(0, topic_id, topic.encode()))
        assert answer == [Regack(topic_id, topic_id, 0)]
    assert client.state() is State.ACTIVE
    return client


def asleep(duration_s: int = 600, options: SessionOptions | None = None) -> Client:
    return connected(options=options).sleeps(duration_s)


def asleep_with(
    *payloads: bytes, duration_s: int = 600, options: SessionOptions | None = None
) -> Client:
    client = asleep(duration_s, options)
    for payload in payloads:
        assert client.is_sent("a/b", payload) == []
    return client


def published(message_id: int, payload: bytes, *, dup: bool = False) -> Publish:
    """With the topic that `asleep_with` uses."""
    return Publish(1, message_id, payload, qos=1, dup=dup)


def acked(message_id: int) -> Puback:
    return Puback(1, message_id, ReturnCode.ACCEPTED)


def acknowledged(frame: Frame) -> Puback:
    """The PUBACK that a good client answers to this PUBLISH."""
    assert isinstance(frame, Publish)
    return Puback(frame.topic_id, frame.message_id, 0)
