"""When a reading counts as safe, and how long it is worth keeping, as are messages: by its topic.

The first of the operator's filters that matches a topic decides; else the gateway's own rules do.
What is said below `tidegate/` is believed to be the gateway's: who is there, what is ingested. So
is what Home Assistant's discovery has under the ids of gateways and their devices, unless
`discovery_prefix` is None. A sensor that publishes there is refused, whatever the filters say.

Commands of Home Assistant have a time of their own, where no filter of the operator gives one: they
come without any, as Home Assistant cannot set it.

Limit: with filters, rules are remembered for `TOPICS_MAX` topics; of more all are found again. The
same of times of commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from gateway.core.topic_trie import TopicTree

TOPICS_MAX = 20_000
RESERVED = "tidegate/"
DEVICE_ID = "tidegate_"  # what an id begins with there (presence/homeassistant/)


class Acknowledge(Enum):
    """Who must have a QoS 1 or 2 reading before its sensor is acknowledged."""

    AUTO = "auto"  # the broker or the disk, whichever is first
    JOURNAL = "journal"  # the disk
    UPSTREAM = "upstream"  # the broker


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    acknowledge: Acknowledge = Acknowledge.UPSTREAM
    expiry_s: float = 0.0  # 0: never
    coalesce_retained: bool = False
    stores_qos_0: bool = False
    stores_qos_0_offline: bool = False
    # Until an ingest has them; in memory they could not be, so nothing that the broker alone
    # acknowledges is kept.
    keeps: bool = False
    is_refused: bool = False
    deliver_within_s: float = 0.0  # a message that says nothing of it; 0: whenever
    # By QoS: whether a reading goes to the broker at once, if nothing is in its way.
    goes_straight: tuple[bool, bool, bool] = field(init=False)
    # Whether it may go to the journal when the broker takes too long.
    spills: bool = field(init=False)

    def __post_init__(self) -> None:
        by_broker = self.acknowledge is Acknowledge.UPSTREAM
        keeps = self.keeps and not by_broker
        passes_by = self.acknowledge is not Acknowledge.JOURNAL and not keeps
        straight = (not self.stores_qos_0, passes_by, by_broker)
        if self.is_refused:
            straight = (False, False, False)
        object.__setattr__(self, "keeps", keeps)
        object.__setattr__(self, "goes_straight", straight)
        object.__setattr__(self, "spills", not by_broker)


REFUSED = ReadingOptions(is_refused=True)


@dataclass(frozen=True, slots=True)
class UplinkOptions:
    default: ReadingOptions = field(default_factory=ReadingOptions)
    overrides: tuple[tuple[str, ReadingOptions], ...] = ()
    spill_after_s: float = 0.05
    discovery_prefix: str | None = None
    # How long a command on a topic is worth delivering; 0 for what is none. None: there are none.
    command_within_s: Callable[[str], float] | None = None


class OptionsByTopic:
    def __init__(
        self,
        default: ReadingOptions,
        overrides: Sequence[tuple[str, ReadingOptions]] = (),
        discovery_prefix: str | None = None,
        topic_prefix: str = "",
        command_within_s: Callable[[str], float] | None = None,
    ) -> None:
        """`discovery_prefix` is as the broker has it, behind no `topic_prefix`."""
        self._command_within_s = command_within_s
        self._known_within: dict[str, float] = {}
        self._default = default
        self._topic_prefix = topic_prefix
        self._discovery = "" if discovery_prefix is None else f"{discovery_prefix}/"
        self._discovery_start = _as_sensors_name_it(self._discovery, topic_prefix)
        self._overrides = overrides
        self._places: TopicTree[int] = TopicTree()
        for place, (topic_filter, _) in reversed(list(enumerate(overrides))):
            self._places.put(topic_filter, place)
        self._known: dict[str, ReadingOptions] = {}

    @property
    def limits_delivery(self) -> bool:
        """Whether messages of some topic are to be delivered within a time."""
        return self._command_within_s is not None or any(
            options.deliver_within_s for _, options in self._overrides
        )

    def deliver_within_s(self, topic: str) -> float:
        """Of a message that says nothing of it; 0: whenever."""
        within_s = self.of(topic).deliver_within_s
        command_within_s = self._command_within_s
        if within_s or command_within_s is None:
            return within_s
        known = self._known_within.get(topic)
        if known is not None:
            return known
        if len(self._known_within) >= TOPICS_MAX:
            self._known_within.clear()
        within_s = self._known_within[topic] = command_within_s(topic)
        return within_s

    def of(self, topic: str) -> ReadingOptions:
        if topic.startswith(RESERVED):
            return REFUSED
        start = self._discovery_start
        if start is not None and topic.startswith(start) and self._is_configuration(topic):
            return REFUSED
        if not self._overrides:
            return self._default
        return self._known.get(topic) or self._find(topic)

    def _find(self, topic: str) -> ReadingOptions:
        places = [place for _, place in self._places.above(topic)]
        options = self._overrides[min(places)][1] if places else self._default
        if len(self._known) >= TOPICS_MAX:
            self._known.clear()
        self._known[topic] = options
        return options

    def _is_configuration(self, topic: str) -> bool:
        """Of any component: Home Assistant takes `sensor/tidegate_gh/lost/config` for the part
        `lost` of what `device/tidegate_gh/config` describes.
        """
        _, _, device_id = f"{self._topic_prefix}{topic}"[len(self._discovery) :].partition("/")
        return device_id.startswith(DEVICE_ID)


def _as_sensors_name_it(discovery: str, topic_prefix: str) -> str | None:
    """What topics begin with that may be in it; None if none can be."""
    if not discovery:
        return None
    if topic_prefix.startswith(discovery):
        return ""
    return discovery.removeprefix(topic_prefix) if discovery.startswith(topic_prefix) else None
