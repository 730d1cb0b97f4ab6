"""How loudly each kind of news is told, and what an operator can do about it.

WARNING: readings or messages are lost, or a sensor stays outside, and someone can change that.
INFO: a peer did what it must not; of use to who sets up sensors. DEBUG: part of a normal day.
"""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING
from typing import NamedTuple

from gateway.core.effects import DiscoveryChanged, Part, Reason, State, StateChanged


class Telling(NamedTuple):
    level: int
    advice: str | None = None


DROPPED: dict[Reason, Telling] = {
    Reason.BAD_RECEIPT: Telling(WARNING, "see who publishes to tidegate/ingest/<name>/ack/#"),
    Reason.MALFORMED: Telling(INFO),
    Reason.TRAILING_OCTETS: Telling(DEBUG),
    Reason.STRANGER: Telling(INFO),
    Reason.OUT_OF_TURN: Telling(DEBUG),
    Reason.FORWARDER: Telling(WARNING, "see [forwarders] in the configuration"),
    Reason.NOT_SUPPORTED: Telling(INFO),
    Reason.PROTOCOL_ID: Telling(INFO),
    Reason.CLIENT_ID: Telling(
        INFO, "see mqtt_sn.client_id_bytes_max and mqtt_sn.empty_client_id, or correct the sensor"
    ),
    Reason.CLIENTS_FULL: Telling(WARNING, "raise limits.clients_max"),
    Reason.NOT_PERMITTED: Telling(
        INFO, "add it to admission.listed, or permit new sensors for a while on the page"
    ),
    Reason.TOPICS_FULL: Telling(WARNING, "raise limits.topics_per_client_max"),
    Reason.SUBSCRIPTIONS_FULL: Telling(WARNING, "raise limits.subscriptions_per_client_max"),
    Reason.UNKNOWN_TOPIC_ID: Telling(INFO),
    Reason.BAD_TOPIC: Telling(INFO),
    Reason.RESERVED_TOPIC: Telling(WARNING, "below tidegate/ the gateway alone publishes"),
    Reason.BAD_FILTER: Telling(INFO),
    Reason.PAYLOAD_TOO_LARGE: Telling(WARNING, "raise limits.payload_bytes_max"),
    Reason.QOS_MINUS_ONE_OFF: Telling(INFO, "set qos_minus_one.allow = true to take them"),
    Reason.REPEATED: Telling(DEBUG),
    Reason.UNSETTLED_FULL: Telling(INFO, "the sensor sends faster than the broker settles"),
    Reason.BROKER_AWAY: Telling(
        WARNING, "readings of QoS 1 and 2 wait for the broker; for 0 see journal.qos0_offline"
    ),
    Reason.BROKER_SLOW: Telling(
        WARNING, "readings of QoS 1 and 2 wait for the broker; for 0 see journal.qos0_offline"
    ),
    Reason.BROKER_REFUSED: Telling(WARNING, "see the broker's log and its access rules"),
    Reason.WAITING_FULL: Telling(
        WARNING,
        "bring the broker back, or raise upstream.waiting_messages_max and waiting_bytes_max",
    ),
    Reason.OUTBOX_FULL: Telling(
        WARNING, "raise limits.outbox_messages_max and limits.outbox_bytes_max"
    ),
    Reason.NOT_CONNECTED: Telling(DEBUG),
    Reason.ASLEEP: Telling(DEBUG, "mqtt_sn.queue_qos0_for_sleepers keeps them"),
    Reason.CLIENT_REFUSED: Telling(INFO),
    Reason.SESSION_ENDED: Telling(INFO),
    Reason.JOURNAL_FULL: Telling(
        WARNING, "bring the broker back, make room on the disk, or raise journal.size_max"
    ),
    Reason.JOURNAL_FAILED: Telling(
        WARNING, "the disk cannot be written, `tidegate doctor --disk` says more"
    ),
    Reason.EXPIRED: Telling(WARNING, "see journal.message_expiry_s"),
    Reason.COALESCED: Telling(DEBUG),
    Reason.TOO_MANY_CONNECTS: Telling(
        WARNING, "a flood, unless so many sensors are new; see limits.connects_per_s_max"
    ),
    Reason.TOO_MANY_PACKETS: Telling(WARNING, "see limits.packets_per_s_max"),
    Reason.UNHEARD: Telling(INFO, "see whether the sensor can hear the gateway's answer"),
    Reason.EGRESS_FULL: Telling(WARNING, "raise limits.egress_bytes_per_s_max"),
    Reason.GROUP_TRAFFIC: Telling(DEBUG, "only SEARCHGW is answered that comes by multicast"),
    Reason.NOT_ADVERTISING: Telling(DEBUG),
    Reason.GATEWAY_ID_TAKEN: Telling(WARNING, "give each gateway of a network another gateway.id"),
    Reason.RETAINED_FULL: Telling(
        WARNING, "raise limits.retained_messages_max and limits.retained_bytes_max"
    ),
}


def level_of(change: StateChanged) -> int:
    """A sleeper that wakes and sleeps on is no event, whether it fetches (PINGREQ) or publishes
    (CONNECT): a thousand do so all day.
    """
    if change.after is State.CONNECTING:
        return DEBUG  # what comes of it has a line of its own
    if change.after is State.LOST:
        return WARNING
    if change.after is State.AWAKE or change.after is State.ASLEEP:
        return DEBUG
    return DEBUG if change.before is State.ASLEEP and change.after is State.ACTIVE else INFO


def level_of_discovery(change: DiscoveryChanged) -> int:
    """A standby that stands in says that the other gateway is gone."""
    if change.after is Part.UNABLE or change.before is Part.STANDBY:
        return WARNING
    return INFO
