"""How loudly each kind of news is told, and what an operator can do about it.

WARNING: readings or messages are lost, or a sensor stays outside, and someone can change that.
INFO: a peer did what it must not; of use to who sets up sensors. DEBUG: part of a normal day.
"""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING
from typing import NamedTuple

from gateway.core.drop_reasons import Reason
from gateway.core.effects import DiscoveryChanged, DiscoveryRole, StateChanged
from gateway.core.state_records import State


class EventLevel(NamedTuple):
    level: int
    advice: str | None = None


DROPPED: dict[Reason, EventLevel] = {
    Reason.BAD_RECEIPT: EventLevel(WARNING, "see who publishes to tidegate/ingest/<name>/ack/#"),
    Reason.MALFORMED: EventLevel(INFO),
    Reason.TRAILING_OCTETS: EventLevel(DEBUG),
    Reason.STRANGER: EventLevel(INFO),
    Reason.OUT_OF_TURN: EventLevel(DEBUG),
    Reason.FORWARDER: EventLevel(WARNING, "see [forwarders] in the configuration"),
    Reason.NOT_SUPPORTED: EventLevel(INFO),
    Reason.PROTOCOL_ID: EventLevel(INFO),
    Reason.CLIENT_ID: EventLevel(
        INFO, "see mqtt_sn.client_id_bytes_max and mqtt_sn.empty_client_id, or correct the sensor"
    ),
    Reason.CLIENTS_FULL: EventLevel(WARNING, "raise limits.clients_max"),
    Reason.HOST_FULL: EventLevel(WARNING, "if they are yours, raise limits.clients_per_host_max"),
    Reason.GAVE_WAY: EventLevel(
        WARNING,
        "raise limits.clients_max if the sensors of that host are yours, else find who sends from "
        "there and set limits.clients_per_host_max",
    ),
    Reason.MEMORY_SCARCE: EventLevel(WARNING, "see limits.memory_percent_max"),
    Reason.NOT_PERMITTED: EventLevel(
        INFO, "add it to admission.listed, or permit new sensors for a while on the page"
    ),
    Reason.NOT_BOUND: EventLevel(
        WARNING, "its client id belongs to another identity, see [[binding]] in the configuration"
    ),
    Reason.NOT_APPROVED: EventLevel(
        INFO, "it may do nothing until then: tidegate join approve CLIENT, or reject, or the page"
    ),
    Reason.TOPICS_FULL: EventLevel(WARNING, "raise limits.topics_per_client_max"),
    Reason.HOST_TOPICS_FULL: EventLevel(
        WARNING, "if its sensors are yours, raise limits.topics_per_host_max"
    ),
    Reason.SUBSCRIPTIONS_FULL: EventLevel(WARNING, "raise limits.subscriptions_per_client_max"),
    Reason.STATE_NOT_SAVED: EventLevel(WARNING, "see to the disk of gateway.state_dir"),
    Reason.UNKNOWN_TOPIC_ID: EventLevel(INFO),
    Reason.BAD_TOPIC: EventLevel(INFO),
    Reason.RESERVED_TOPIC: EventLevel(
        WARNING,
        "below tidegate/ the gateway alone publishes, and Home Assistant's configuration of its "
        "devices, or set home_assistant.sensors_may_configure",
    ),
    Reason.FORBIDDEN: EventLevel(
        WARNING,
        "if it may do that, add an entry to [[access]]; "
        "`tidegate access explain CLIENT publish TOPIC` says which one decides",
    ),
    Reason.BAD_FILTER: EventLevel(INFO),
    Reason.PAYLOAD_TOO_LARGE: EventLevel(
        WARNING,
        "raise limits.payload_bytes_max, or the broker's own limit if the detail names that",
    ),
    Reason.QOS_MINUS_ONE_OFF: EventLevel(INFO, "set qos_minus_one.allow = true to take them"),
    Reason.REPEATED: EventLevel(DEBUG),
    Reason.UNSETTLED_FULL: EventLevel(INFO, "the sensor sends faster than the broker acknowledges"),
    Reason.BROKER_AWAY: EventLevel(
        WARNING, "readings of QoS 1 and 2 wait for the broker; for 0 see journal.qos0_offline"
    ),
    Reason.BROKER_SLOW: EventLevel(
        WARNING, "readings of QoS 1 and 2 wait for the broker; for 0 see journal.qos0_offline"
    ),
    Reason.BROKER_REFUSED: EventLevel(WARNING, "see the broker's log and its access rules"),
    Reason.WAITING_FULL: EventLevel(
        WARNING,
        "bring the broker back, or raise upstream.waiting_messages_max and waiting_bytes_max",
    ),
    Reason.ASIDE_FULL: EventLevel(
        WARNING, "see `tidegate buffer aside`: send them again or delete them"
    ),
    Reason.OUTBOX_FULL: EventLevel(
        WARNING, "raise limits.outbox_messages_max and limits.outbox_bytes_max"
    ),
    Reason.NOT_CONNECTED: EventLevel(DEBUG),
    Reason.ASLEEP: EventLevel(DEBUG, "mqtt_sn.queue_qos0_for_sleepers keeps them"),
    Reason.CLIENT_REFUSED: EventLevel(INFO),
    Reason.UNACKNOWLEDGED: EventLevel(
        WARNING, "the sensor is there and answers no such message; see `tidegate clients`"
    ),
    Reason.SESSION_ENDED: EventLevel(INFO),
    Reason.JOURNAL_FULL: EventLevel(
        WARNING, "bring the broker back, make room on the disk, or raise journal.size_max"
    ),
    Reason.JOURNAL_FAILED: EventLevel(
        WARNING, "the disk cannot be written, `tidegate doctor --disk` says more"
    ),
    Reason.EXPIRED: EventLevel(WARNING, "see journal.message_expiry_s"),
    Reason.MESSAGE_EXPIRED: EventLevel(
        INFO, "its publisher, or deliver_within_s of [[topic]], gave it no longer"
    ),
    Reason.COALESCED: EventLevel(DEBUG),
    Reason.TOO_MANY_CONNECTS: EventLevel(
        WARNING, "a flood, unless so many sensors are new; see limits.connects_per_s_max"
    ),
    Reason.TOO_MANY_PACKETS: EventLevel(WARNING, "see limits.packets_per_s_max"),
    Reason.UNHEARD: EventLevel(INFO, "see whether the sensor can hear the gateway's answer"),
    Reason.FORGED: EventLevel(
        WARNING, "if that is a sensor of yours, see whether it has the key that the gateway has"
    ),
    Reason.REPLAYED: EventLevel(INFO, "a network that doubles packets does that as well"),
    Reason.UNFRESH: EventLevel(INFO, "it may be a replay: its sender is asked, and sends it again"),
    Reason.UNKNOWN_SENDER: EventLevel(WARNING, "`tidegate keys list` shows those that are known"),
    Reason.UNPROTECTED: EventLevel(
        WARNING, "give the sensor a key, or see `security` of its link and [protection]"
    ),
    Reason.UNPROVEN: EventLevel(
        INFO, "somebody connected in its name elsewhere, and was not heard of any more"
    ),
    Reason.EGRESS_FULL: EventLevel(WARNING, "raise limits.egress_bytes_per_s_max"),
    Reason.GROUP_TRAFFIC: EventLevel(DEBUG, "only SEARCHGW is answered that comes by multicast"),
    Reason.NOT_ADVERTISING: EventLevel(DEBUG),
    Reason.GATEWAY_ID_TAKEN: EventLevel(
        WARNING, "give each gateway of a network another gateway.id"
    ),
    Reason.RETAINED_FULL: EventLevel(
        WARNING, "raise limits.retained_messages_max and limits.retained_bytes_max"
    ),
}


SHARED_ADVICE = "give each sensor an id of its own"


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
    if change.after is DiscoveryRole.UNABLE or change.before is DiscoveryRole.STANDBY:
        return WARNING
    return INFO
