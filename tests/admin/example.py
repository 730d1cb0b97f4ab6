"""A gateway in numbers, each of them another."""

from __future__ import annotations

from gateway.admin.aside import AsideNumbers, AsideSubject
from gateway.admin.event_log import EventLog
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import (
    Condition,
    DtlsNumbers,
    IngestNumbers,
    JournalNumbers,
    LineNumbers,
    LinkNumbers,
    LogNumbers,
    MemoryNumbers,
    StateNumbers,
)
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    DiscoveryRole,
    Dropped,
    Rebound,
    StateChanged,
    SubscriptionRefused,
    UpstreamRefused,
    UpstreamUp,
)
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer

GREENHOUSE = ClientId("greenhouse-7")
PEER = Peer(0, bytes((192, 0, 2, 7)))
ELSEWHERE = Peer(0, bytes((192, 0, 2, 8)))

LINK = LinkNumbers(
    name="udp 0.0.0.0:1883",
    listening_on="0.0.0.0:1883",
    datagrams_received=101,
    datagrams_sent=102,
    send_failures=103,
    receive_buffer_drops=104,
    truncated=105,
    group_joined=True,
    outside_networks=106,
)
LINE = LineNumbers(
    is_open=True,
    problem=None,
    opened=111,
    lost=110,
    bytes_received=112,
    bytes_sent=113,
    waiting_bytes=114,
    frames={"good": 115, "bad_check": 116},
    resyncs=117,
    chatter_bytes=118,
)
DTLS_LINK = LinkNumbers(
    name="udp1",
    listening_on="0.0.0.0:8883",
    datagrams_received=0,
    datagrams_sent=0,
    send_failures=0,
    receive_buffer_drops=0,
    truncated=0,
    dtls=DtlsNumbers(
        sessions=121,
        half_open=122,
        handshakes=123,
        refused={"failed": 124, "unknown_key": 125},
        hellos=126,
        hellos_dropped=127,
        records_refused=128,
        unsent=129,
        sessions_ended={"idle": 130},
    ),
)
SERIAL_LINK = LinkNumbers(
    name="serial0",
    listening_on="/dev/ttyUSB0, 115200 baud, hdlc",
    datagrams_received=115,
    datagrams_sent=119,
    send_failures=109,
    receive_buffer_drops=0,
    truncated=0,
    line=LINE,
)
JOURNAL = JournalNumbers(
    condition=Condition.FULL,
    error="No space left on device",
    depth=201,
    parked=202,
    used_bytes=300 * 2**20,
    budget_bytes=400 * 2**20,
    fill=0.75,
    oldest_age_s=205.5,
    segments=206,
    damaged=207,
    lost=216,
    stored=208,
    finished=209,
    dropped_oldest=217,
    groups=211,
    syncs=218,
    bytes_written=212,
    failures=219,
    sync_s_p50=0.213,
    sync_s_p99=0.214,
    sync_s_worst=0.215,
    sync_s_total=0.216,
    syncs_timed=217,
    in_per_s=2.0,
    out_per_s=3.0,
)
STATE = StateNumbers(
    condition=Condition.DEGRADED,
    error="disk I/O error",
    pending_rows=301,
    commits=302,
    failures=303,
    file_bytes=304,
)
INGEST = IngestNumbers(
    is_on=True,
    timeout_s=300.0,
    kept=401,
    oldest_age_s=402.0,
    heard_age_s=3.0,
    ingested=404,
    sent_again=405,
    receipts=406,
    bad_receipts=407,
    unkept=408,
    given_up=409,
    unreadable=410,
)
ASIDE = AsideNumbers(
    readings=701,
    bytes=702,
    set_aside=703,
    without_room=704,
    subjects=(
        AsideSubject(client="pump", topic="pumps/x", readings=700, reason="0x87"),
        AsideSubject(client="well", topic="well/1", readings=1, reason="0x95"),
    ),
    blocked_readings=(("pump", "pumps/x"), ("well", "well/2")),
    blocked_filters=("cmd/#",),
    blocked_own_topics=("tidegate/gh/stats",),
)
LOG = LogNumbers(lost_lines=501)
MEMORY = MemoryNumbers(is_scarce=False, used_bytes=504, limit_bytes=505, place="a test")
NUMBERS = Numbers(
    uptime_s=1.5,
    clients_by_state={State.ACTIVE: 2, State.ASLEEP: 30},
    unproven_clients=3,
    clients_overdue=1,
    subscriptions=4,
    covering_subscriptions=3,
    retained_messages=5,
    retained_bytes=600,
    upstream_connected=True,
    upstream_state="connected to mqtt://broker.example:1883",
    upstream_connects=7,
    upstream_in_flight=8,
    upstream_waiting=9,
    upstream_waiting_bytes=1000,
    upstream_bytes_in=1100,
    upstream_bytes_out=1200,
    said=1250,
    readings_by_qos=(20, 21, 22),
    deliveries_by_qos=(40, 41, 42),
    frames_received={"PUBLISH": 51, "CONNECT": 52},
    frames_sent={"PUBACK": 53},
    outbox_messages=61,
    links=(LINK, SERIAL_LINK),
    event_loop_lag_s=0.25,
    pauses=2,
    pause_s=20.5,
    discovery=DiscoveryRole.STANDBY,
    journal=JOURNAL,
    state=STATE,
    ingest=INGEST,
    aside=ASIDE,
    unmoved_s={AlarmName.UPLINK_STALLED: 12.5},
    log=LOG,
    memory=MEMORY,
    slow_callbacks={"page": 601},
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def peer_text(peer: Peer) -> str:
    return f"{'.'.join(map(str, peer.address))}:1883"


def news(clock: Clock | None = None) -> EventLog:
    return EventLog(peer_text=peer_text, now=clock or Clock())


def eventful_news() -> EventLog:
    told = news()
    told.record(Dropped(Reason.OUTBOX_FULL, GREENHOUSE, count=3))
    told.record(Dropped(Reason.OUTBOX_FULL, GREENHOUSE, count=4))
    told.record(StateChanged(GREENHOUSE, State.ACTIVE, State.LOST, PEER))
    for _ in range(6):
        told.record(Rebound(GREENHOUSE, PEER, ELSEWHERE))
    told.record(UpstreamUp(session_present=False))
    for _ in range(2):
        told.record(UpstreamUp(session_present=True, resent=5))
    for _ in range(3):
        told.record(UpstreamRefused("no"))
    for _ in range(4):
        told.record(SubscriptionRefused("a/#", "no"))
    return told
