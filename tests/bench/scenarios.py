"""The matrix: what is measured, with which load, and in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from tests.bench.gateway_process import CLIENTS_MAX
from tests.bench.goals import (
    IN_ORDER,
    NONE_LOST,
    NONE_REPEATED,
    Goal,
    acknowledged_while_away_within,
    acknowledged_within,
    connected_within,
    cpu_at_most,
    delivered_within,
    drained_at,
    journal_bytes_at_most,
    longest_wait_within,
    nothing_written,
    once,
    rate_at_least,
    ratio_at_most,
    restarted_within,
    share_at_least,
)

# The broker's queue towards the gateway is 1,000 messages by default: more under way would measure
# what it drops.
DOWN_WINDOW_MAX = 800
# Without acknowledgements two messages a client are under way, up to what the broker will queue.
UP_WINDOW_MAX = 800
TUNED_BROKER_CONFIG = ("max_inflight_messages 1000",)

# From the issue that asked for speed, on a 2-core virtual machine with mosquitto and the generator
# beside it. On another machine the ratios hold, the microseconds do not.
QOS1_CPU_US_MAX = 9.0
QOS1_CPU_RATIO_MAX = 1.5
QOS1_1000_CPU_US_MAX = 10.0
LONGEST_WAIT_MS_MAX = 100.0
ONE_CLIENT_P50_MS_MAX, ONE_CLIENT_P99_MS_MAX = 0.15, 1.0
QOS0_CPU_US_MAX = 4.0
AT_5000_CPU_US_MAX, AT_5000_P99_MS_MAX = 10.0, 5.0
QOS2_RATE_MIN, QOS2_CPU_US_MAX = 20_000.0, 24.0
FAN_OUT_CPU_US_MAX = 3.5
OWN_TOPICS_CPU_US_MAX = 12.0
STORM_S_MAX = 2.0
JOURNAL_SHARE_MIN = 0.6
JOURNAL_BYTES_MAX = 300.0
OUTAGE_PUBACK_MS_MAX = 50.0
DRAIN_RATE_MIN = 20_000.0
RESTART_S_MAX = 1.0
SERIAL_OCTETS_PER_S = 11_520  # 115,200 baud, ten bits for each octet
OUTAGE_S = 20.0
# It keeps our session while it is away, and drops nothing that it took.
RETURNING_BROKER_CONFIG = (
    "persistence true",
    "max_queued_messages 0",
    "max_inflight_messages 0",
)


class Kind(Enum):
    TRAFFIC = auto()
    LINE = auto()
    STORM = auto()
    WAKING = auto()
    OUTAGE = auto()
    RESTART = auto()
    YARDSTICK = auto()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    arguments: tuple[str, ...]
    kind: Kind = Kind.TRAFFIC
    clients: int = 1
    goals: tuple[Goal, ...] = ()
    needs_gateway: bool = True
    needs_broker: bool = True
    broker_config: tuple[str, ...] = field(default=())
    gateway_config: str = ""
    clients_max: int = CLIENTS_MAX
    # OUTAGE: how long the broker is away.
    away_s: float = 0.0
    # So many sensors beside those of the generator, each with a reading after so many seconds.
    sensors_beside: int = 0
    interval_s: float = 0.0
    # Whether the gateway is asked how much it wrote.
    counts_journal: bool = False
    # Clients are nodes behind a radio bridge on a serial line, framed as hdlc; with its speed in
    # octets a second, or 0 for none.
    line_octets_per_s: float | None = None
    # The row whose rate this one's is held against.
    beside: str = ""

    @property
    def lasts_as_asked(self) -> bool:
        """Whether `--seconds` is the length of the run."""
        return self.kind in (Kind.TRAFFIC, Kind.LINE, Kind.YARDSTICK)


def _up(qos: int, clients: int, goals: tuple[Goal, ...] = ()) -> Scenario:
    window = 1 if clients == 1 else min(2 * clients, UP_WINDOW_MAX)
    return Scenario(
        name=f"qos{qos}-up-{clients}",
        title=f"QoS {qos} up, {clients:,} client{'s' if clients > 1 else ''}",
        arguments=(
            "pub",
            "--qos",
            str(qos),
            "--clients",
            str(clients),
            "--window",
            str(window),
        ),
        clients=clients,
        goals=goals,
    )


def _down(qos: int, clients: int, goals: tuple[Goal, ...] = ()) -> Scenario:
    return Scenario(
        name=f"qos{qos}-down-{clients}",
        title=f"QoS {qos} down, own topics, {clients:,} client{'s' if clients > 1 else ''}",
        arguments=(
            "sub",
            "--qos",
            str(qos),
            "--clients",
            str(clients),
            "--topic",
            "own",
            "--window",
            str(min(clients, DOWN_WINDOW_MAX)),
        ),
        clients=clients,
        goals=goals,
    )


def _storm(clients: int, goals: tuple[Goal, ...] = ()) -> Scenario:
    return Scenario(
        name=f"storm-{clients}",
        title=f"{clients:,} CONNECTs at once",
        arguments=("storm", "--clients", str(clients), "--connect-window", "0", "--hold", "2"),
        kind=Kind.STORM,
        clients=clients,
        goals=goals,
    )


def _waking(clients: int) -> Scenario:
    return Scenario(
        name=f"wake-{clients}",
        title=f"{clients:,} sleepers wake up at once, a message waiting for each",
        arguments=(
            "wake",
            "--qos",
            "1",
            "--clients",
            str(clients),
            "--sleep",
            "600",
            "--hold",
            "1",
            "--rounds",
            "5",
        ),
        kind=Kind.WAKING,
        clients=clients,
    )


def _fan_out() -> Scenario:
    return Scenario(
        name="fan-out-100",
        title="QoS 0 down, 1 message to 100 clients",
        arguments=(
            "sub",
            "--qos",
            "0",
            "--clients",
            "100",
            "--topic",
            "shared",
            "--window",
            str(DOWN_WINDOW_MAX),
        ),
        clients=100,
        goals=(cpu_at_most(FAN_OUT_CPU_US_MAX),),
    )


def _at_a_rate() -> Scenario:
    return Scenario(
        name="qos0-up-100-at-5000",
        title="QoS 0 up, 100 clients, 5,000/s",
        arguments=("pub", "--qos", "0", "--clients", "100", "--rate", "5000"),
        clients=100,
        goals=(cpu_at_most(AT_5000_CPU_US_MAX), delivered_within(AT_5000_P99_MS_MAX)),
    )


def _together() -> Scenario:
    """Clients that send at the same moment and then wait: only so a PUBACK that Nagle's algorithm
    holds back in the broker shows. In a closed loop the next PUBLISH carries the TCP ACK it waits
    for, and a gateway that does without TCP_QUICKACK looks as good as one that has it."""
    return Scenario(
        name="qos1-up-100-together",
        title="QoS 1 up, 100 clients together, 20 times a second",
        arguments=(
            "pub",
            "--qos",
            "1",
            "--clients",
            "100",
            "--rate",
            "2000",
            "--burst",
            "100",
        ),
        clients=100,
    )


def _journal(goals: tuple[Goal, ...]) -> Scenario:
    return replace(
        _up(1, 100),
        name="qos1-up-100-journal",
        title="QoS 1 up, 100 clients, `acknowledge = journal`",
        gateway_config='[journal]\nacknowledge = "journal"\n',
        beside="qos1-up-100",
        counts_journal=True,
        goals=goals,
    )


def _outage(rate_per_s: int, clients: int, goals: tuple[Goal, ...]) -> Scenario:
    """So many clients that none has to wait for its acknowledgement before its turn comes again."""
    return Scenario(
        name=f"outage-{rate_per_s}",
        title=f"broker away for {OUTAGE_S:g} s, QoS 1 up, {clients} clients, {rate_per_s:,}/s",
        arguments=(
            "pub",
            "--qos",
            "1",
            "--clients",
            str(clients),
            "--rate",
            str(rate_per_s),
            "--subscription-qos",
            "1",
            "--drain",
            "30",
        ),
        kind=Kind.OUTAGE,
        clients=clients,
        goals=goals,
        broker_config=RETURNING_BROKER_CONFIG,
        away_s=OUTAGE_S,
    )


def _restart(sessions: int) -> Scenario:
    return Scenario(
        name=f"restart-{sessions}",
        title=f"restart with {sessions:,} sessions",
        arguments=(
            "pub",
            "--qos",
            "1",
            "--clients",
            str(sessions),
            "--rate",
            "5000",
            "--seconds",
            "1",
            "--connect-window",
            "100",
        ),
        kind=Kind.RESTART,
        clients=sessions,
        goals=(restarted_within(RESTART_S_MAX),),
    )


def _serial(name: str, title: str, octets_per_s: float, clients: int) -> Scenario:
    return replace(
        _up(1, clients),
        name=name,
        title=title,
        kind=Kind.LINE,
        arguments=("pub", "--qos", "1", "--clients", str(clients), "--window", str(clients)),
        line_octets_per_s=octets_per_s,
    )


def _tuned(scenario: Scenario) -> Scenario:
    return Scenario(
        name=f"{scenario.name}-tuned",
        title=f"{scenario.title}, `{TUNED_BROKER_CONFIG[0]}`",
        arguments=scenario.arguments,
        clients=scenario.clients,
        broker_config=TUNED_BROKER_CONFIG,
    )


def _yardsticks() -> tuple[Scenario, ...]:
    return (
        Scenario(
            name="mosquitto-alone-qos1",
            title="mosquitto alone, QoS 1, one MQTT 5 connection in, one out",
            arguments=("direct", "--qos", "1", "--clients", "100", "--window", "100"),
            kind=Kind.YARDSTICK,
            needs_gateway=False,
        ),
        Scenario(
            name="mosquitto-alone-qos0",
            title="mosquitto alone, QoS 0, one MQTT 5 connection in, one out",
            arguments=("direct", "--qos", "0", "--clients", "100", "--window", "200"),
            kind=Kind.YARDSTICK,
            needs_gateway=False,
        ),
        Scenario(
            name="udp-echo",
            title="UDP echo in C, recvmmsg and sendmmsg",
            arguments=("echo",),
            kind=Kind.YARDSTICK,
            needs_gateway=False,
            needs_broker=False,
        ),
    )


QOS1_GOALS = (
    cpu_at_most(QOS1_CPU_US_MAX),
    ratio_at_most(QOS1_CPU_RATIO_MAX),
    nothing_written(),
)
MANY_GOALS = (
    cpu_at_most(QOS1_1000_CPU_US_MAX),
    NONE_LOST,
    longest_wait_within(LONGEST_WAIT_MS_MAX),
)
QOS2_GOALS = (rate_at_least(QOS2_RATE_MIN), cpu_at_most(QOS2_CPU_US_MAX), once())
OUTAGE_GOALS = (acknowledged_while_away_within(OUTAGE_PUBACK_MS_MAX), IN_ORDER)
OWN_TOPICS_GOALS = (cpu_at_most(OWN_TOPICS_CPU_US_MAX),)
MATRIX: tuple[Scenario, ...] = (
    _up(0, 1),
    _up(0, 100, (cpu_at_most(QOS0_CPU_US_MAX),)),
    _up(0, 1000, (cpu_at_most(QOS0_CPU_US_MAX),)),
    _at_a_rate(),
    _up(1, 1, acknowledged_within(ONE_CLIENT_P50_MS_MAX, ONE_CLIENT_P99_MS_MAX)),
    _up(1, 100, QOS1_GOALS),
    _journal((share_at_least(JOURNAL_SHARE_MIN), journal_bytes_at_most(JOURNAL_BYTES_MAX))),
    _up(1, 1000, MANY_GOALS),
    _together(),
    _up(2, 100, QOS2_GOALS),
    _fan_out(),
    _down(1, 1),
    _down(1, 100, OWN_TOPICS_GOALS),
    _down(1, 1000, OWN_TOPICS_GOALS),
    _storm(1000),
    _storm(10000, (connected_within(STORM_S_MAX), NONE_REPEATED)),
    _waking(1000),
    _outage(200, 50, OUTAGE_GOALS),
    _outage(5000, 500, (*OUTAGE_GOALS, drained_at(DRAIN_RATE_MIN))),
    _restart(10000),
    _serial("serial-115200", "QoS 1 up, a line at 115,200 baud, full", SERIAL_OCTETS_PER_S, 2),
    _serial("serial-unbound", "QoS 1 up, the same line without its speed", 0, 20),
    *_yardsticks(),
)
TUNED: tuple[Scenario, ...] = (
    _tuned(_up(1, 100)),
    _tuned(_up(1, 1000)),
    _tuned(_up(2, 100)),
    _tuned(_down(1, 100)),
)


def chosen(names: Sequence[str], *, with_tuned: bool) -> tuple[Scenario, ...]:
    """All rows, or those with one of `names` or, where no row is called so, beginning with it.

    A name without any row is a KeyError.
    """
    rows = (*MATRIX, *TUNED) if with_tuned else MATRIX
    wanted = {row.name for name in names for row in _called(name, rows)}
    return tuple(row for row in rows if row.name in wanted) if names else rows


def _called(name: str, rows: Sequence[Scenario]) -> list[Scenario]:
    found = [row for row in rows if row.name == name]
    found = found or [row for row in rows if row.name.startswith(name)]
    if not found:
        raise KeyError(name)
    return found


def interleaved(rows: Sequence[Scenario], repeats: int) -> Iterator[tuple[int, Scenario]]:
    """Every row once, then every row again: what disturbs the machine for a minute then disturbs
    one run of several rows, not all runs of one."""
    for repeat in range(1, repeats + 1):
        for row in rows:
            yield repeat, row
