"""What an operator is alarmed by: names that stay, in the log, the metrics and the JSON.

The first ones stand for a standstill (liveness.py, watch.py), the others for conditions that
`admin/alarms.py` reads from the numbers.
"""

from __future__ import annotations

from enum import Enum


class AlarmName(Enum):
    READING_WAITS_FOR_DISK = "reading_waits_for_disk"
    JOURNAL_STALLED = "journal_stalled"
    STATE_STALLED = "state_stalled"
    ANSWER_OVERDUE = "answer_overdue"
    DELIVERY_STALLED = "delivery_stalled"
    UPLINK_STALLED = "uplink_stalled"
    BACKLOG_STALLED = "backlog_stalled"
    SUBSCRIPTION_UNANSWERED = "subscription_unanswered"
    WILL_STALLED = "will_stalled"
    TIMER_OVERDUE = "timer_overdue"
    LINK_STALLED = "link_stalled"
    NOTICES_STALLED = "notices_stalled"

    BROKER_AWAY = "broker_away"
    JOURNAL_FAILED = "journal_failed"
    BACKLOG_UNREADABLE = "backlog_unreadable"
    JOURNAL_DEGRADED = "journal_degraded"
    JOURNAL_FULL = "journal_full"
    JOURNAL_FILLING = "journal_filling"
    READINGS_UNREADABLE = "readings_unreadable"
    STATE_NOT_SAVED = "state_not_saved"
    STATE_LOST = "state_lost"
    CONFIGURATION_UNREADABLE = "configuration_unreadable"
    INGEST = "ingest"
    SET_ASIDE = "set_aside"
    BROKER_ENDS_CONNECTIONS = "broker_ends_connections"
    CLIENTS_LOST = "clients_lost"
    CLIENTS_OVERDUE = "clients_overdue"
    CLIENT_ID_SHARED = "client_id_shared"
    MEMORY_SCARCE = "memory_scarce"
    EVENT_LOOP_LATE = "event_loop_late"
    SERIAL_LINE = "serial_line"
    ADDRESS_LOST = "address_lost"
    DATAGRAMS_LOST = "datagrams_lost"
    DROPPED = "dropped"
    BIRTH_REFUSED = "birth_refused"
    ANNOUNCEMENT_REFUSED = "announcement_refused"
    PRESENCE_NOT_NOTED = "presence_not_noted"
    VALUES_LEFT_OUT = "values_left_out"
    LOG_NOT_READ = "log_not_read"
    DRAIN_PAUSED = "drain_paused"
    PERMIT_OPEN = "permit_open"
    RESTART_WANTED = "restart_wanted"
