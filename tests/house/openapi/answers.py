"""The schemas of all answers, by the names that they have in the document."""

from __future__ import annotations

import inspect

from gateway.admin.aside import ASIDE_SCHEMA, AsideNumbers
from gateway.admin.clients import AGES, CLIENTS_SCHEMA, WillShown
from gateway.admin.http.actions import SESSION_SCHEMA
from gateway.admin.http.answers import BUFFER_REASONS, BUFFER_SCHEMA, REFUSED_SCHEMA, STATUS_SCHEMA
from gateway.admin.http.server import CONFIGURATION_SCHEMA
from gateway.admin.log.logs import LEVELS
from gateway.admin.log.tail import LINES_MAX, LOG_SCHEMA
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import Cause, Condition, JournalNumbers, StateNumbers
from gateway.admin.refusals import LISTED_MAX
from gateway.admin.topics import TOPICS_SCHEMA
from gateway.cli.buffer.peek import SCHEMA as PEEK_SCHEMA
from gateway.core.access.rules import ACTIONS
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.state_records import State
from gateway.presence.latest import POINTS_MAX
from tests.house.openapi.shapes import (
    Schema,
    array,
    choice,
    constant,
    counts,
    of,
    of_dataclass,
    optional,
    properties_of,
    record,
    reference,
)

INTEGER, NUMBER, TEXT, FLAG = of(int), of(float), of(str), of(bool)
QOS: Schema = {"type": "integer", "minimum": 0, "maximum": 2}
UNIX_S = of(float, "Unix time in seconds")
STATE = choice([state.value for state in State])


def schemas() -> dict[str, Schema]:
    return {
        "Error": record({"error": of(str, "why, in a sentence")}),
        "Done": record({"done": of(str, "what was done, in a sentence")}),
        "Health": _health(),
        "Readiness": _readiness(),
        "Status": _status(),
        "Journal": of_dataclass(JournalNumbers, **_JOURNAL_ADDED),
        "Buffer": _buffer(),
        "Client": record(_client(), "One client as it is listed."),
        "ClientDetails": _client_details(),
        "Clients": _clients(),
        "Topic": _topic(),
        "Topics": _topics(),
        "Series": _series(),
        "Latest": _latest(),
        "Log": _log(),
        "Refused": _refused(),
        "Configuration": _configuration(),
        "Reading": _with_text(_reading(), "A reading on disk."),
        "WaitingReadings": _waiting(),
        "AsideReadings": _aside(),
        "Session": _session(),
        "DevicesEvent": _devices_event(),
        "DeviceEvent": _device_event(),
    }


def _headed(schema: str, properties: dict[str, Schema], description: str = "") -> Schema:
    head = {"schema": constant(schema), "gateway": of(str, "`gateway.name`")}
    return record(head | properties, description)


def _health() -> Schema:
    return record(
        {
            "status": choice(["ok", "degraded", "failing"]),
            "restart_helps": of(bool, "true with status 503: a supervisor should restart it"),
            "checks": _checks(),
        }
    )


def _readiness() -> Schema:
    upstream = {"connected": FLAG, "state": of(str, "as `upstream_state` of the status")}
    return record(
        {
            "status": choice(["ok", "failing"]),
            "checks": _checks(),
            "upstream": record(upstream, "The broker: reported, not required."),
        }
    )


def _checks() -> Schema:
    result = {
        "type": "object",
        "properties": {"ok": FLAG, "reason": of(str, "where it is not ok")},
        "required": ["ok"],
    }
    return {"type": "object", "additionalProperties": result, "description": "by name"}


_CONDITION = choice([one.value for one in Condition])
_JOURNAL_ADDED: dict[str, Schema] = {
    "condition": _CONDITION,
    "drain_s": of(
        float | None, "until nothing waits, at the rates of the last minute; null: never"
    ),
}


def _status() -> Schema:
    standstill = {
        "name": choice([name.value for name in AlarmName]),
        "cause": choice([cause.value for cause in Cause]),
        "unmoved_s": NUMBER,
    }
    counted = {
        "dropped": counts(Reason, "by reason, since the start"),
        "state_changes": counts(State, "into each state, since the start"),
        **dict.fromkeys(
            (
                "upstream_sessions_kept",
                "upstream_sessions_new",
                "upstream_resent",
                "upstream_refusals",
                "subscription_refusals",
            ),
            INTEGER,
        ),
    }
    alarms = {
        "version": TEXT,
        "alarms": array(TEXT, "what needs attention, a sentence each"),
        "alarm_names": array(standstill["name"], "of the alarms, in the same order"),
    }
    replaced = {
        "standstills": array(record(standstill)),
        "clients_by_state": counts(State),
        "journal": reference("Journal"),
        "state": of_dataclass(StateNumbers),
        "counters": record(counted),
    }
    properties = alarms | properties_of(Numbers) | replaced
    return _headed(STATUS_SCHEMA, properties, inspect.getdoc(Numbers) or "")


def _buffer() -> Schema:
    dropped = record({reason.value: INTEGER for reason in BUFFER_REASONS})
    own = {
        "drain_paused": FLAG,
        "upstream_connected": FLAG,
        "upstream_state": TEXT,
        "aside": of_dataclass(AsideNumbers),
        "dropped": dropped,
    }
    journal = properties_of(JournalNumbers) | _JOURNAL_ADDED
    return _headed(BUFFER_SCHEMA, journal | own, inspect.getdoc(JournalNumbers) or "")


def _client() -> dict[str, Schema]:
    return {
        "id": TEXT,
        "state": STATE,
        "overdue": of(bool, "should have been heard and was not"),
        "overdue_s": of(float | None, "for how long; null: it is not"),
        "due_s": of(float | None, "until it should be heard, below 0: overdue; null: not known"),
        "asleep_until": of(float | None, "Unix time in seconds; null: not asleep"),
        "away_s": of(float | None, "since it was disconnected or lost; null: it is not"),
        "last_heard_s": of(float, "seconds ago"),
        "heard_at": UNIX_S,
        "due_at": of(float | None, "Unix time in seconds"),
        "away_since": of(float | None, "Unix time in seconds"),
        "link": of(str, "of the configuration, such as `udp0`"),
        "address": TEXT,
        "clean": of(bool, "a clean session"),
        "keep_alive_s": INTEGER,
        "sleep_s": of(int, "of its last DISCONNECT with a duration"),
        "topics": of(int, "topic ids of its own"),
        "subscriptions": INTEGER,
        "queued_messages": of(int, "that wait for it"),
        "queued_bytes": INTEGER,
        "will": optional(of_dataclass(WillShown)),
        "given_up_messages": of(int, "that it never acknowledged"),
        "given_up_topic": of(str | None, "of the last of these"),
    }


def _client_details() -> Schema:
    topic_ids = array(record({"id": INTEGER, "topic": TEXT}))
    details = {
        "topic_ids": topic_ids,
        "predefined_topic_ids": topic_ids,
        "subscribed": array(record({"filter": TEXT, "qos": QOS})),
    }
    return record(_client() | details, "One client that was asked for with `id`.")


def _clients() -> Schema:
    clients = array({"anyOf": [reference("ClientDetails"), reference("Client")]})
    return _headed(
        CLIENTS_SCHEMA,
        {
            "time": UNIX_S,
            "clients": clients,
            "more": of(int, "further ones that match"),
            "total": of(int, "that match in all"),
        },
    )


def _topic() -> Schema:
    def named(number: str) -> Schema:
        return record({"count": INTEGER, "clients": array(record({"id": TEXT, number: INTEGER}))})

    return record(
        {
            "topic": of(str, "a name, or a filter that is subscribed to"),
            "predefined_id": of(int | None, "for all clients"),
            "predefined_for": named("topic_id"),
            "registered_by": named("topic_id"),
            "subscribed_by": named("qos"),
            "upstream_filter": of(str | None, "the gateway's subscription at the broker"),
            "upstream_qos": of(int | None),
            "retained_bytes": of(int | None, "of the retained message; null: none"),
        }
    )


def _topics() -> Schema:
    return _headed(
        TOPICS_SCHEMA,
        {
            "topics": array(reference("Topic")),
            "more": of(int, "further ones that match"),
            "more_is_exact": of(bool, "false: there are at least so many"),
        },
    )


def _value() -> Schema:
    return record(
        {
            "name": TEXT,
            "value": of(float | str | bool),
            "unit": of(str, "as SenML has it, or empty"),
            "past": array(NUMBER, "the last ones, the oldest first") | {"maxItems": POINTS_MAX},
        }
    )


def _series() -> Schema:
    return record(
        {
            "client": TEXT,
            "topic": TEXT,
            "heard_at": UNIX_S,
            "qos": {"type": "integer", "minimum": -1, "maximum": 2},
            "retain": FLAG,
            "bytes": of(int, "of the payload"),
            "count": of(int, "readings since it is recorded"),
            "values": array(_value()),
        },
        "The last reading of one client on one topic.",
    )


def _latest() -> Schema:
    total = of(int, "that match in all")
    return _headed("tidegate.latest/1", {"total": total, "latest": array(reference("Series"))})


def _log() -> Schema:
    line = {"number": of(int, "from 1, without holes"), "level": choice(list(LEVELS)), "text": TEXT}
    lines = array(record(line), "the oldest first") | {"maxItems": LINES_MAX}
    return _headed(LOG_SCHEMA, {"last": of(int, "the number of the last line"), "lines": lines})


def _refused() -> Schema:
    refusal = {
        "client_id": of(str | None, "null: not known, as of a reading without a session"),
        "identity": of(str, "how it was known; empty where that is not known"),
        "action": choice(list(ACTIONS)),
        "topic": of(str, "a filter for subscribe"),
        "count": of(int, "since it is in the list"),
        "last_at": UNIX_S,
    }
    listed = array(record(refusal), "the last one first") | {"maxItems": LISTED_MAX}
    return _headed(REFUSED_SCHEMA, {"refused": listed})


def _configuration() -> Schema:
    setting = {
        "key": of(str, "with dots: `upstream.url`"),
        "value": of(bool | int | float | str | None),
        "toml": of(str | None, "the value as a file has it; null: not set"),
        "origin": of(str, "file and line, variable, command line, or `default`"),
        "is_given": of(bool, "not by default"),
    }
    return _headed(CONFIGURATION_SCHEMA, {"settings": array(record(setting))})


def _reading() -> dict[str, Schema]:
    return {
        "gw": of(str, "`gateway.name`"),
        "client": TEXT,
        "epoch": of(int | None, "with `seq` the delivery tag; null for QoS 0"),
        "seq": of(int | None),
        "ts": of(int, "when it was received, Unix time in milliseconds"),
        "topic": TEXT,
        "qos": {"type": "integer", "minimum": -1, "maximum": 2},
        "retain": FLAG,
        "payload": of(str, "in Base64") | {"contentEncoding": "base64"},
    }


def _with_text(properties: dict[str, Schema], description: str = "") -> Schema:
    schema = record(properties, description)
    schema["properties"]["text"] = of(str, "the payload, where it is UTF-8")
    return schema


def _shown_reading(further: dict[str, Schema]) -> Schema:
    shown = of(str, "the payload for people, on one line and shortened")
    return _with_text(_reading() | further | {"shown": shown})


def _waiting() -> Schema:
    reading = _shown_reading({"age_s": of(float, "0 where it is not known")})
    return _headed(PEEK_SCHEMA, {"readings": array(reading, "the next to go first")})


def _aside() -> Schema:
    further = {
        "number": of(int, "by which it is sent again or deleted"),
        "set_aside_ms": of(int, "Unix time in milliseconds"),
        "reason": TEXT,
    }
    return _headed(ASIDE_SCHEMA, {"readings": array(_shown_reading(further))})


def _session() -> Schema:
    return record(
        {
            "schema": constant(SESSION_SCHEMA),
            "can_sign_in": of(bool, "there is a password or a user"),
            "signed_in": FLAG,
            "token": of(str | None, "for the header X-Tidegate-Token; null: not signed in"),
            "user": of(str | None, "the name of who is signed in"),
            "role": choice(["none", "viewer", "operator"]),
        }
    )


def _devices_event() -> Schema:
    row = {name: schema for name, schema in _client().items() if name not in AGES}
    return record(
        {
            "order": array(TEXT, "client ids, as the rows are sorted"),
            "rows": {
                "type": "object",
                "additionalProperties": record(row | {"values": array(_value())}),
                "description": "by client id: those that are other than before",
            },
            "total": INTEGER,
            "more": INTEGER,
        }
    )


def _device_event() -> Schema:
    return record(
        {
            "id": TEXT,
            "client": optional(reference("ClientDetails")),
            "latest": array(reference("Series")),
        }
    )
