"""Each way to act in a client's name, by who may and who may not use its client id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.config.patterns import IDENTITY
from gateway.core.access.bindings import Binding, Bindings
from gateway.core.access.gate import AccessGate
from gateway.core.addresses import address_behind
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect, IdShared, Rebound, StateChanged
from gateway.core.engine import EngineOptions
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, SessionRecord, State
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrel,
    Register,
    ReturnCode,
    Subscribe,
    TopicIdType,
    Unsubscribe,
    WillMsg,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicUpd,
    encode,
)
from tests.support.engine_bench import UPSTREAM, published
from tests.support.state_bench import StateBench

TANK = ClientId("tank")
REFUSED = Connack(ReturnCode.NOT_SUPPORTED)
OWN, OWN_TOO, OTHER, NO_ONE = b"psk:tank", b"psk:tank+", b"psk:other", b"anonymous@udp0"
BOUND = Bindings(
    [Binding(["psk:*", "forwarder:*"], [IDENTITY]), Binding(["anonymous@*"], ["free-*"])]
)
# Of one device by two names, of which only a contest decides as neither proves anything.
CABLE, CABLE_TOO = b"serial:tank", b"serial:tank+"
UNPROVEN = Bindings([Binding(["serial:tank", "serial:tank+"], ["tank"])])


def identity_of(_link: int, address: bytes) -> str:
    """An address says who is there; what is behind `+` is another address of the same one."""
    if address.startswith(b"bridge"):
        return f"forwarder:{address[6:-1].decode()}"
    return address.decode().partition("+")[0]


class BindingBench(StateBench):
    def __init__(self, bindings: Bindings | None = BOUND) -> None:
        self.access = AccessGate(None, identity_of, bindings)
        super().__init__(
            EngineOptions(
                UPSTREAM,
                session=SessionOptions(access=self.access),
                predefined=PredefinedTopics.of({"s/tank": 1}),
                qos_minus_one=QosMinusOneOptions(allow=True),
                admission=AdmissionOptions(assign_empty_client_id=True),
                saves=True,
            )
        )

    @property
    def tank(self) -> Session:
        return self.engine.sessions[TANK]

    @property
    def reasons(self) -> list[Reason]:
        return [each.reason for each in self.told(Dropped)]

    def use(self, bindings: Bindings | None) -> list[Effect]:
        return self.ask(self.engine.operator.use_bindings(bindings))


def connect(name: bytes = b"tank", *, clean: bool = False, will: bool = False) -> Connect:
    return Connect(name, 60, clean_session=clean, will=will)


def reading(qos: int = 1) -> Publish:
    return Publish(
        topic_id=1,
        topic_id_type=TopicIdType.PREDEFINED,
        message_id=9 if qos > 0 else 0,
        payload=b"1",
        qos=qos,
    )


def joined(bench: BindingBench, at: bytes = OWN, name: bytes = b"tank") -> None:
    assert bench.say(at, connect(name), Pingreq()) == [Connack(0), Pingresp()]


def asleep(bench: BindingBench, at: bytes = OWN) -> None:
    joined(bench, at)
    bench.say(at, Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT), Disconnect(600))


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("will", [False, True])
@pytest.mark.parametrize(
    ("at", "is_allowed"), [(OWN, True), (OWN_TOO, True), (OTHER, False), (NO_ONE, False)]
)
def test_connect_in_a_clients_name(
    at: bytes, is_allowed: bool, will: bool, clean: bool, is_known: bool
) -> None:
    bench = BindingBench()
    if is_known:
        joined(bench)
    bench.news.clear()
    (answer,) = bench.say(at, connect(clean=clean, will=will))
    if is_allowed:
        assert answer == (WillTopicReq() if will else Connack(0))
        return
    assert answer == REFUSED
    assert bench.reasons == [Reason.NOT_BOUND]
    assert len(bench.engine.sessions) == is_known
    assert bench.say(at, Pingreq()) == [Disconnect()], "it is an unknown peer"
    if is_known:
        assert (bench.tank.peer, bench.tank.state) == (Peer(0, OWN), State.ACTIVE)


def test_an_identity_that_is_bound_uses_no_other_client_id() -> None:
    bench = BindingBench()
    joined(bench)
    for name in (b"other", b"free-1", b"else"):
        assert bench.say(OWN, connect(name)) == [REFUSED]
    assert bench.say(OWN, Pingreq()) == [Pingresp()], "it goes on as who it is"
    joined(bench, NO_ONE, b"free-1")


@pytest.mark.parametrize(("at", "is_allowed"), [(b"serial:x", True), (OWN, False)])
def test_an_id_that_is_assigned_is_bound_as_well(at: bytes, is_allowed: bool) -> None:
    bench = BindingBench(Bindings([Binding(["psk:*"], ["tank"])]))
    answer = bench.say(at, connect(b"", clean=True))
    assert answer == [Connack(0) if is_allowed else REFUSED]


@pytest.mark.parametrize(("at", "is_allowed"), [(OWN_TOO, True), (OTHER, False), (NO_ONE, False)])
def test_a_sleeper_is_woken_elsewhere_only_by_its_own_device(at: bytes, is_allowed: bool) -> None:
    bench = BindingBench()
    asleep(bench)
    bench.publishes("tp", b"secret", qos=1, by="tp")
    answers = bench.say(at, Pingreq(b"tank"))
    if is_allowed:
        assert published(answers) == [(b"secret", 1, False)]
        return
    assert answers == [Disconnect()]
    assert bench.reasons == [Reason.NOT_BOUND]
    assert bench.tank.state is State.ASLEEP
    assert published(bench.say(OWN, Pingreq(b"tank"))) == [(b"secret", 1, False)]


FROM_AN_ADDRESS: Sequence[Frame] = (
    Pingreq(b"tank"),
    Pingreq(),
    Register(0, 3, b"s/x"),
    reading(),
    reading(0),
    Subscribe(3, b"s/#", 1),
    Unsubscribe(4, b"s/#"),
    WillTopicUpd(b"s/will", 1, False),
    WillMsgUpd(b"gone"),
    WillTopic(b"s/will", 1, False),
    WillMsg(b"gone"),
    Puback(1, 1, 0),
    Pubrel(1),
    Disconnect(),
    Disconnect(60),
)


@pytest.mark.parametrize("frame", FROM_AN_ADDRESS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("at", [OTHER, NO_ONE])
def test_no_frame_from_elsewhere_is_for_the_client(at: bytes, frame: Frame) -> None:
    bench = BindingBench()
    joined(bench)
    bench.seen()
    bench.say(at, connect())
    assert bench.say(at, frame) in ([Disconnect()], [])
    assert bench.seen() == []
    assert (bench.tank.state, bench.tank.will, bench.tank.filters) == (State.ACTIVE, None, {})


@pytest.mark.parametrize("frame", FROM_AN_ADDRESS, ids=lambda each: type(each).__name__)
def test_each_frame_of_the_device_itself_is_taken(frame: Frame) -> None:
    bench, free = BindingBench(), BindingBench(None)
    heard = []
    for each in (bench, free):
        joined(each)
        heard.append(each.say(OWN, frame))
    assert heard[0] == heard[1], "as without bindings"


def test_a_reading_at_qos_minus_1_is_in_no_clients_name_but_that_of_who_is_there() -> None:
    bench = BindingBench()
    joined(bench)
    bench.engine.report_readings(is_on=True)
    for at in (OTHER, NO_ONE):
        bench.say(at, connect())
        bench.say(at, reading(-1))
    bench.say(OWN, reading(-1))
    senders = [each.reading.client_id for each in bench.news if hasattr(each, "reading")]
    assert senders == ["", "", TANK]


@pytest.mark.parametrize(("node", "is_allowed"), [(b"tank", True), (b"well", False)])
def test_a_node_behind_a_forwarder_uses_its_own_client_id(node: bytes, is_allowed: bool) -> None:
    bench = BindingBench()
    at = address_behind(b"bridge", node)
    bench.say_octets(b"bridge", encode(Forwarded(node, encode(connect()))))
    assert bench.hear(at) == [Connack(0) if is_allowed else REFUSED]
    bench.say_octets(b"bridge", encode(Forwarded(node, encode(Pingreq()))))
    assert bench.hear(at) == [Pingresp() if is_allowed else Disconnect()]


# Without a contest


@pytest.mark.parametrize("clean", [False, True])
def test_a_proven_identity_takes_over_its_session_at_once(clean: bool) -> None:
    bench = BindingBench()
    joined(bench)
    bench.subscribe(OWN, b"s/#", 1)
    bench.seen()
    assert bench.say(OWN_TOO, connect(clean=clean)) == [Connack(0)]
    assert bench.engine.client_table.formers == {}
    assert ("s/#" in bench.subscribed) is not clean
    assert bench.say(OWN_TOO, Pingreq()) == [Pingresp()]
    assert bench.say(OWN, Pingreq()) == [Disconnect()], "nothing is there any more"
    assert bench.tank.peer == Peer(0, OWN_TOO)
    bench.restart()
    assert bench.say(OWN_TOO, Pingreq()) == [Pingresp()], "it is saved where it is"


@pytest.mark.parametrize("clean", [False, True])
def test_without_proof_there_is_a_contest(clean: bool) -> None:
    bench = BindingBench(UNPROVEN)
    joined(bench, CABLE)
    bench.subscribe(CABLE, b"s/#", 1)
    assert bench.say(CABLE_TOO, connect(clean=clean)) == [Connack(0)]
    assert list(bench.engine.client_table.formers) == [TANK]
    assert bench.say(CABLE, Pingreq()) == [Pingresp()]


def test_a_proven_sleeper_wakes_up_elsewhere_at_once_and_is_saved_there() -> None:
    bench = BindingBench()
    asleep(bench)
    bench.publishes("tp", b"1", qos=1, by="tp")
    (message,) = bench.say(OWN_TOO, Pingreq(b"tank"))
    assert bench.told(Rebound) == [Rebound(TANK, Peer(0, OWN), Peer(0, OWN_TOO))]
    assert bench.engine.client_table.formers == {}
    (row,) = [row for row in bench.rows.durable.values() if isinstance(row, SessionRecord)]
    assert row.address == OWN_TOO
    assert isinstance(message, Publish)
    answers = bench.say(OWN_TOO, Puback(message.topic_id, message.message_id, 0))
    assert answers == [Pingresp()]
    bench.publishes("tp", b"2", qos=1, by="tp")
    assert bench.say(OWN, Pingreq()) == [Disconnect()]


def test_a_proven_identity_ends_what_came_before_it_from_elsewhere() -> None:
    bench = BindingBench(None)
    asleep(bench)
    assert bench.say(NO_ONE, Pingreq(b"tank")) == [Pingresp()]
    assert list(bench.engine.client_table.formers) == [TANK]
    bench.access.bindings = BOUND
    assert bench.say(OWN_TOO, Pingreq(b"tank")) == [Pingresp()]
    assert bench.engine.client_table.formers == {}
    assert bench.tank.peer == Peer(0, OWN_TOO)


# What is there already


def test_a_restart_leaves_no_session_where_it_may_not_be() -> None:
    bench = BindingBench(None)
    for at, name in ((OWN, b"tank"), (NO_ONE, b"well"), (OTHER, b"else")):
        joined(bench, at, name)
    bench.say(b"", connect(b"former"))
    bench.say(b"", Pingreq())
    bench.access.bindings = BOUND
    bench.restart()
    states = {client_id: each.state for client_id, each in bench.engine.sessions.items()}
    assert states == {
        "tank": State.ACTIVE,
        "well": State.DISCONNECTED,
        "else": State.DISCONNECTED,
        "former": State.ACTIVE,  # it is not known who is there
    }
    assert bench.say(OWN, Pingreq()) == [Pingresp()]
    assert bench.say(NO_ONE, Pingreq()) == [Disconnect()]


@pytest.mark.parametrize("is_asleep", [False, True])
def test_other_bindings_disconnect_who_is_not_allowed_any_more(is_asleep: bool) -> None:
    bench = BindingBench(None)
    joined(bench, NO_ONE)
    bench.say(NO_ONE, WillTopicUpd(b"s/will", 1, False), WillMsgUpd(b"gone"))
    bench.say(NO_ONE, Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT))
    joined(bench, OTHER, b"other")
    if is_asleep:
        bench.say(NO_ONE, Disconnect(600))
    bench.seen()
    bench.hear(NO_ONE)
    bench.news.clear()
    bench.use(BOUND)
    assert bench.hear(NO_ONE) == [Disconnect()]
    assert bench.hear(OTHER) == []
    assert bench.reasons == [Reason.NOT_BOUND]
    assert bench.seen() == [], "its will is not published, its subscription stays"
    assert bench.tank.state is State.DISCONNECTED
    bench.publishes("tp", b"1", qos=1, by="tp")
    answers = bench.say(OWN, connect())
    assert answers[0] == Connack(0)
    assert published(answers) == [(b"1", 1, False)], "its own device goes on with what waits"
    bench.use(None)
    joined(bench, NO_ONE, b"well")


def test_other_bindings_end_a_clean_session() -> None:
    bench = BindingBench(None)
    bench.say(NO_ONE, connect(clean=True), Pingreq())
    bench.use(BOUND)
    assert bench.engine.sessions == {}


def test_other_bindings_turn_away_who_has_sent_no_more_than_connect() -> None:
    bench = BindingBench(None)
    bench.say(NO_ONE, connect())
    bench.say(OTHER, connect(b"other"))
    bench.use(BOUND)
    assert [each.client_id for each in bench.engine.half_open] == ["other"]
    assert bench.hear(NO_ONE) == [Disconnect()]
    assert bench.say(NO_ONE, Pingreq()) == [Disconnect()]


@pytest.mark.parametrize("is_asleep", [False, True])
def test_other_bindings_end_what_came_in_the_clients_name_from_elsewhere(is_asleep: bool) -> None:
    bench = BindingBench(None)
    asleep(bench) if is_asleep else joined(bench)
    bench.say(NO_ONE, connect(), Pingreq())
    bench.news.clear()
    bench.use(BOUND)
    assert bench.hear(NO_ONE) == [Disconnect()]
    assert bench.engine.client_table.formers == {}
    assert bench.tank.peer == Peer(0, OWN)
    after = [each.after for each in bench.told(StateChanged)]
    assert after == ([State.ASLEEP] if is_asleep else [])
    assert bench.say(OWN, Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("clean", [False, True])
def test_other_bindings_end_the_former_session_of_who_may_stay(clean: bool) -> None:
    bench = BindingBench(None)
    bench.say(NO_ONE, connect(clean=clean), Pingreq())
    bench.subscribe(NO_ONE, b"s/#", 1)
    bench.say(OWN, connect(), Pingreq())
    bench.use(BOUND)
    assert bench.hear(NO_ONE) == [Disconnect()]
    assert (list(bench.engine.client_table.formers) == []) is clean, "a clean one is over"
    assert bench.say(NO_ONE, Pingreq()) == [Disconnect()]
    assert bench.say(OWN, Pingreq()) == [Pingresp()]
    bench.use(BOUND)


def test_other_bindings_end_all_that_is_said_in_the_clients_name() -> None:
    bench = BindingBench(None)
    joined(bench, NO_ONE)
    bench.say(OTHER, connect(), Pingreq())
    bench.use(BOUND)
    assert bench.hear(NO_ONE) == bench.hear(OTHER) == [Disconnect()]
    assert bench.tank.state is State.DISCONNECTED


def test_another_identity_at_an_address_ends_what_is_there() -> None:
    bench = BindingBench()
    there = {b"a": "psk:tank", b"b": "psk:well", b"c": "psk:half"}
    bench.access.identity_of = lambda _link, address: there[address]
    joined(bench, b"a")
    joined(bench, b"b", b"well")
    bench.say(b"c", connect(b"half"))
    there.update({b"a": "psk:other", b"c": "psk:other"})
    for at in there:
        bench.take(bench.engine.identity_changed(0, at, bench.at))
    assert bench.hear(b"b") == []
    assert bench.hear(b"a") == bench.hear(b"c") == [Disconnect()]
    assert bench.tank.state is State.DISCONNECTED
    assert bench.say(b"a", reading()) == [Disconnect()]


def test_two_devices_of_one_identity_are_told_of_as_ever() -> None:
    bench = BindingBench()
    for _ in range(4):
        for at in (OWN, OWN_TOO):
            bench.say(at, connect(), Pingreq())
    assert bench.told(IdShared) != []


def test_without_bindings_no_client_is_asked_who_it_is() -> None:
    bench = BindingBench(None)

    def identity_of(_link: int, _address: bytes) -> str:
        raise AssertionError

    bench.access.identity_of = identity_of
    asleep(bench)
    assert bench.say(OTHER, Pingreq(b"tank")) == [Pingresp()]
    bench.restart()
    bench.use(None)
    assert replace(bench.tank.peer, address=OWN).link == 0
