"""Why something was dropped or refused: the words of the log, and the labels of the metrics."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """Why something was dropped or refused. The values are the `reason` labels of the metrics."""

    MALFORMED = "malformed"
    TRAILING_OCTETS = "trailing_octets"
    STRANGER = "stranger"
    OUT_OF_TURN = "out_of_turn"
    NOT_SUPPORTED = "not_supported"
    PROTOCOL_ID = "protocol_id"
    CLIENT_ID = "client_id"
    CLIENTS_FULL = "clients_full"
    TOPICS_FULL = "topics_full"
    SUBSCRIPTIONS_FULL = "subscriptions_full"
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    BAD_TOPIC = "bad_topic"
    BAD_FILTER = "bad_filter"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    QOS_MINUS_ONE_OFF = "qos_minus_one_off"
    REPEATED = "repeated"
    UNSETTLED_FULL = "unsettled_full"
    BROKER_AWAY = "broker_away"
    BROKER_SLOW = "broker_slow"
    BROKER_REFUSED = "broker_refused"
    WAITING_FULL = "waiting_full"
    OUTBOX_FULL = "outbox_full"
    NOT_CONNECTED = "not_connected"
    ASLEEP = "asleep"
    CLIENT_REFUSED = "client_refused"
    SESSION_ENDED = "session_ended"
    RETAINED_FULL = "retained_full"
    JOURNAL_FULL = "journal_full"
    JOURNAL_FAILED = "journal_failed"
    EXPIRED = "expired"
    COALESCED = "coalesced"
