"""The last value of each name on each topic of a device, merged over its readings.

A reading says what it says: one without the battery does not mean that there is none any more. So
each value stays until a newer one comes, over restarts of the gateway as well, and is published
with all others of its device in one document (docs/mqtt.md).

Rule 1: null, NaN and infinity make a value unknown, at once. A null that comes before any value is
        none.
Rule 2: a value that came regularly and does not any more is unknown after some of its own gaps, as
        counted in readings of its topic; so are all values of a topic that came regularly while the
        device goes on without it. What came irregularly stays: it may come when it changes. What
        has `expire_after_s` is unknown after that.
Rule 3: an older value does not replace a newer one. Times of SenML count within `CLOCK_S_MAX`
        before now: what is further away says that the clock of its sensor is wrong.
Rule 4: a boolean or a text that changes is published at each change, in order. Numbers are
        published when the caller asks for what is fresh, with all that came meanwhile.
Rule 5: a value that comes in another unit is converted to its first one, where one can become the
        other; the log names it. Else it goes on in the new one.

Limits: `DEVICES_MAX` devices; `values_max` values of each, and as many hidden ones; texts of
`characters_max`; `PENDING_MAX` readings that are not decoded yet, of which the oldest gives way;
`CHANGES_MAX` changes that are not published yet, for `CHANGE_S_MAX` each. What is left out is named
once for each device, topic and reason, `NOTES_MAX` times.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gateway.core.state_records import ClientId
from gateway.presence.documents import utc
from gateway.presence.standing import Rhythm
from gateway.presence.unit_conversion import converted
from gateway.presence.values import (
    Content,
    Found,
    Plain,
    Value,
    content_of,
    json_float,
    number_text,
)

DEVICES_MAX = 20_000
PENDING_MAX = 2000
CHANGES_MAX = 1000
CHANGE_S_MAX = 10.0
NOTES_MAX = 1000
CLOCK_S_MAX = 7 * 24 * 3600.0
# RFC 8428, 4.5.3: below that a time counts from now.
RELATIVE_S_MAX = 2**28
# Rule 2: so many of its usual gaps, and so much more.
GAPS_UNTIL_UNKNOWN = 4
READINGS_UNTIL_UNKNOWN = 10
SECONDS_UNTIL_UNKNOWN = 60.0
# Texts that say what was done, as Zigbee2MQTT names them: an event, also when it repeats itself.
EVENT_NAMES = ("action", "button", "click", "event")
# Beside the topics of a device; no topic name has that sign (MQTT 5, 4.7.1).
TIMES = "#times"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """What the operator has set for a value."""

    hide: bool = False
    min_change: float = 0.0
    expire_after_s: float = 0.0  # 0: by its rhythm
    is_event: bool = False


NO_RULE = ValueRule()


class Declarations(NamedTuple):
    """`found_in`: the names of commands that the reading of a topic declares, or None. `is_part`:
    whether a value of such a reading is of the declaration.
    """

    found_in: Callable[[str, bytes], tuple[str, ...] | None]
    is_part: Callable[[str], bool]


class Change(NamedTuple):
    """A document that is to be published as it is, even though another one follows."""

    client_id: ClientId
    payload: bytes
    at: float
    is_event: bool = False


class Received(NamedTuple):
    """What came of a device on a topic: the last value of each name, and the names that came as
    null alone.
    """

    client_id: ClientId
    topic: str
    values: list[Value]
    unknown: list[str]


class _LastValue:
    __slots__ = ("at", "count", "published", "readings", "rule", "unit", "value")

    def __init__(self, value: Plain | None, unit: str, at: float, rule: ValueRule) -> None:
        self.value = value
        self.unit = unit
        self.at = at
        self.rule = rule
        self.count = 0  # of the reading of its topic in which it came last
        self.readings = Rhythm()  # from one to the next
        self.published: Plain | None = None  # as it was fresh the last time


class _Topic:
    __slots__ = ("at", "count", "seconds", "values")

    def __init__(self, at: float) -> None:
        self.values: dict[str, _LastValue] = {}
        self.count = 0  # readings
        self.at = at
        self.seconds = Rhythm()

    def is_over(self, at: float) -> bool:
        usual = self.seconds.regular(SECONDS_UNTIL_UNKNOWN)
        return (
            usual is not None and at - self.at > GAPS_UNTIL_UNKNOWN * usual + SECONDS_UNTIL_UNKNOWN
        )


class _Device:
    __slots__ = ("hidden", "shown", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, _Topic] = {}
        self.shown = 0
        self.hidden = 0


class LastValues:
    def __init__(
        self,
        *,
        values_max: int,
        characters_max: int,
        rule_of: Callable[[ClientId, str, str], ValueRule] = lambda *_: NO_RULE,
        declarations: Declarations | None = None,
    ) -> None:
        """`rule_of`: for a device, a topic and a name. `declarations`: of commands, in readings."""
        self.unix_s_at_zero = 0.0
        self._values_max, self._characters_max = values_max, characters_max
        self._rule_of = rule_of
        self._declarations = declarations
        self._declared: dict[tuple[ClientId, str], tuple[str, ...]] = {}  # since the last time
        self._devices: dict[ClientId, _Device] = {}
        self._pending: deque[tuple[ClientId, str, bytes, float]] = deque()
        # By device and topic: what came since the last time.
        self._received: dict[tuple[ClientId, str], dict[str, Value | None]] = {}
        self._fresh: dict[ClientId, None] = {}  # those to be published
        self.has_new = False  # whether any of the fresh ones was not known before
        self._changes: deque[Change] = deque()
        self._unsaved: dict[ClientId, None] = {}
        self._timed: dict[tuple[ClientId, str, str], None] = {}  # those with `expire_after_s`
        self._named: set[tuple[ClientId, str, str]] = set()
        self._notes: list[str] = []
        self._left_out: str | None = None  # the first
        self._left_out_count = 0

    # From the engine

    def receive(self, client_id: ClientId, topic: str, payload: bytes, at: float) -> None:
        """A reading, to be decoded soon."""
        if len(self._pending) >= PENDING_MAX:
            passed_over, its_topic, _, _ = self._pending.popleft()
            self._leave_out(passed_over, its_topic, "more readings came than can be decoded")
        self._pending.append((client_id, topic, payload, at))

    # From the publisher

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def decode(self, readings_max: int) -> None:
        for _ in range(min(readings_max, len(self._pending))):
            client_id, topic, payload, at = self._pending.popleft()
            self._merge(client_id, topic, payload, at)

    def expire(self, now: float) -> None:
        """Rule 2: by `expire_after_s`."""
        for client_id, topic, name in list(self._timed):
            last = self._devices[client_id].topics[topic].values[name]
            if last.value is not None and now - last.at > last.rule.expire_after_s:
                self._unknown(client_id, last)

    def take_received(self) -> list[Received]:
        """What came since the last time, but for what is hidden."""
        received = [
            Received(
                *each,
                [value for value in found.values() if value is not None],
                [name for name, value in found.items() if value is None],
            )
            for each, found in self._received.items()
        ]
        self._received.clear()
        self.has_new = False
        return received

    def take_declared(self) -> list[tuple[ClientId, str, tuple[str, ...]]]:
        """Devices, topics and the commands that they declare there, since the last time."""
        declared = [(*each, names) for each, names in self._declared.items()]
        self._declared.clear()
        return declared

    def take_fresh(self) -> list[ClientId]:
        """Devices with values that are to be published, since the last time."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def next_change(self, now: float) -> Change | None:
        """Rule 4. What is too old is left out: the state that follows is published in any case."""
        while self._changes:
            change = self._changes.popleft()
            if now - change.at <= CHANGE_S_MAX:
                return change
        return None

    def forget(self, client_id: ClientId) -> None:
        if self._devices.pop(client_id, None) is None:
            return
        self._unsaved[client_id] = None
        self._fresh.pop(client_id, None)
        for received in [each for each in self._received if each[0] == client_id]:
            del self._received[received]
        for declared in [each for each in self._declared if each[0] == client_id]:
            del self._declared[declared]
        for timed in [each for each in self._timed if each[0] == client_id]:
            del self._timed[timed]
        self._changes = deque(each for each in self._changes if each.client_id != client_id)

    def document(self, client_id: ClientId) -> bytes:
        """All values of a device; empty for one without any."""
        device = self._devices.get(client_id)
        if device is None or not device.topics:
            return b""
        zero = self.unix_s_at_zero
        values = _object(
            (topic, _object((name, _json(last.value)) for name, last in each.values.items()))
            for topic, each in device.topics.items()
        )
        times = _object(
            (
                topic,
                _object((name, _json(utc(zero + last.at))) for name, last in each.values.items()),
            )
            for topic, each in device.topics.items()
        )
        return f"{values[:-1]},{_json(TIMES)}:{times}}}".encode()

    # For the log and the alarms

    def take_notes(self) -> list[str]:
        """What was left out, or converted, for the first time since the last call."""
        notes, self._notes = self._notes, []
        return notes

    @property
    def left_out(self) -> str | None:
        """Values that are missing because of a limit; None without any."""
        if self._left_out is None:
            return None
        others = self._left_out_count - 1
        return f"{self._left_out}{f', and {others} more' if others else ''}"

    # Over restarts

    def take_rows(self) -> list[tuple[ClientId, str]]:
        """What has changed since the last call, as JSON; empty for what is forgotten."""
        rows = [(client_id, self._row(client_id)) for client_id in self._unsaved]
        self._unsaved.clear()
        return rows

    def restore(self, client_id: ClientId, row: str, now: float) -> None:
        """Raises ValueError, TypeError or AttributeError for what is no row of ours."""
        device = _Device()
        for topic, [count, at, gaps, values] in json.loads(row, parse_float=json_float).items():
            each = device.topics[topic] = _Topic(self._restored_at(at, now))
            each.count, each.seconds = count, Rhythm(gaps)
            for name, [value, unit, value_at, value_count, value_gaps] in values.items():
                rule = self._rule_of(client_id, topic, name)
                last = each.values[name] = _LastValue(
                    value, unit, self._restored_at(value_at, now), rule
                )
                last.count, last.readings = value_count, Rhythm(value_gaps)
                self._count(device, rule)
                if rule.expire_after_s:
                    self._timed[client_id, topic, name] = None
        self._devices[client_id] = device

    @property
    def devices(self) -> list[ClientId]:
        return list(self._devices)

    def _restored_at(self, unix_s: float, now: float) -> float:
        """Not in the future: a board without a battery clock may be in 1970 again."""
        return min(now, unix_s - self.unix_s_at_zero)

    def _row(self, client_id: ClientId) -> str:
        device = self._devices.get(client_id)
        if device is None:
            return ""
        return _object(
            (
                topic,
                _array(
                    str(each.count),
                    self._unix(each.at),
                    json.dumps(each.seconds.gaps),
                    _object((name, self._value_row(last)) for name, last in each.values.items()),
                ),
            )
            for topic, each in device.topics.items()
        )

    def _value_row(self, last: _LastValue) -> str:
        return _array(
            _json(last.value),
            _json(last.unit),
            self._unix(last.at),
            str(last.count),
            json.dumps(last.readings.gaps),
        )

    def _unix(self, at: float) -> str:
        return f"{self.unix_s_at_zero + at:.1f}"

    # Merging

    def _merge(self, client_id: ClientId, topic: str, payload: bytes, at: float) -> None:
        content = content_of(payload, self._values_max, self._characters_max)
        if self._declarations is not None:
            content = self._without_declaration(client_id, topic, payload, content)
        self._name_what_is_missing(client_id, topic, content)
        device = self._device(client_id, topic, content)
        if device is None:
            return
        each = device.topics.get(topic)
        if each is None:
            each = _Topic(at)
        elif content.values:
            each.seconds.note(at - each.at)
            each.at = at
        each.count += 1
        changed: set[str] = set()
        for found in content.values:
            if found.name in changed:  # twice in one reading, such as on and off
                self._add_change(client_id, at)
                changed.clear()
            if self._take(client_id, device, (topic, each), found, at):
                changed.add(found.name)
        if changed:
            self._add_change(client_id, at)
        self._find_missing(client_id, device, each, at)
        self._unsaved[client_id] = None

    def _without_declaration(
        self, client_id: ClientId, topic: str, payload: bytes, content: Content
    ) -> Content:
        assert self._declarations is not None
        names = self._declarations.found_in(topic, payload)
        if names is None:
            return content
        self._declared[client_id, topic] = names
        is_part = self._declarations.is_part
        return content._replace(values=[each for each in content.values if not is_part(each.name)])

    def _device(self, client_id: ClientId, topic: str, content: Content) -> _Device | None:
        device = self._devices.get(client_id)
        if device is not None or not content.values:
            return device
        if len(self._devices) >= DEVICES_MAX:
            self._leave_out(client_id, topic, f"more than {DEVICES_MAX} devices have values")
            return None
        self._devices[client_id] = _Device()
        return self._devices[client_id]

    def _take(
        self,
        client_id: ClientId,
        device: _Device,
        on: tuple[str, _Topic],
        found: Found,
        received_at: float,
    ) -> bool:
        """Whether a boolean or a text has changed."""
        topic, each = on
        at = self._measured_at(found.time_s, received_at)
        last = each.values.get(found.name)
        is_new = last is None
        if last is None:
            last = self._entry(client_id, device, on, found, at)
            if last is None:
                return False
        elif at < last.at:
            return False
        elif each.count > last.count:
            last.readings.note(each.count - last.count)
        value = self._in_first_unit(client_id, topic, last, found)
        before, last.value, last.at, last.count = last.value, value, at, each.count
        if value is not None and (
            last.rule.is_event or (isinstance(value, str) and found.name in EVENT_NAMES)
        ):
            self._add_event(client_id, topic, found.name, value, received_at)
        if not last.rule.hide:
            received = self._received.setdefault((client_id, topic), {})
            if value is None:
                received.setdefault(found.name, None)
            else:
                received[found.name] = Value(found.name, value, last.unit)
        is_change = not is_new and _is_change(before, value)
        if is_new or is_change or _is_worth_it(last, value):
            last.published = value
            self._fresh[client_id] = None
        return is_change

    def _entry(
        self, client_id: ClientId, device: _Device, on: tuple[str, _Topic], found: Found, at: float
    ) -> _LastValue | None:
        """A new value, if it is one and there is room."""
        topic, each = on
        if found.value is None:
            return None
        rule = self._rule_of(client_id, topic, found.name)
        if (device.hidden if rule.hide else device.shown) >= self._values_max:
            reason = f"more than {self._values_max} values (home_assistant.values_per_device_max)"
            self._leave_out(client_id, topic, reason)
            return None
        device.topics[topic] = each
        last = each.values[found.name] = _LastValue(found.value, found.unit, at, rule)
        self._count(device, rule)
        if rule.expire_after_s:
            self._timed[client_id, topic, found.name] = None
        self.has_new = True
        return last

    @staticmethod
    def _count(device: _Device, rule: ValueRule) -> None:
        if rule.hide:
            device.hidden += 1
        else:
            device.shown += 1

    def _measured_at(self, time_s: float, received_at: float) -> float:
        """Rule 3."""
        if not time_s:
            return received_at
        zero = received_at if time_s < RELATIVE_S_MAX else -self.unix_s_at_zero
        at = zero + time_s
        return at if received_at - CLOCK_S_MAX <= at <= received_at else received_at

    def _in_first_unit(
        self, client_id: ClientId, topic: str, last: _LastValue, found: Found
    ) -> Plain | None:
        """Rule 5."""
        value, unit = found.value, found.unit
        if not last.unit:
            last.unit = unit
        if unit in ("", last.unit) or value is None or isinstance(value, bool | str):
            return value
        number = converted(value, unit, last.unit)
        change = f"{found.name!r} came in {last.unit} first, then in {unit}"
        if number is None:
            self._note(client_id, topic, f"{change}: the new unit is used")
            last.unit = unit
            return value
        self._note(client_id, topic, f"{change}: converted to {last.unit}")
        return number

    def _find_missing(self, client_id: ClientId, device: _Device, each: _Topic, at: float) -> None:
        """Rule 2, after a reading on that topic."""
        for last in each.values.values():
            missed = each.count - last.count
            if missed > READINGS_UNTIL_UNKNOWN and last.value is not None:
                usual = last.readings.regular(2)
                if usual and missed > GAPS_UNTIL_UNKNOWN * usual + READINGS_UNTIL_UNKNOWN:
                    self._unknown(client_id, last)
        for other in device.topics.values():
            if other is not each and other.is_over(at):
                for last in other.values.values():
                    if last.value is not None:
                        self._unknown(client_id, last)

    def _unknown(self, client_id: ClientId, last: _LastValue) -> None:
        last.value = last.published = None
        self._fresh[client_id] = None
        self._unsaved[client_id] = None

    # Changes

    def _add_change(self, client_id: ClientId, at: float) -> None:
        self._append(Change(client_id, self.document(client_id), at))

    def _add_event(
        self, client_id: ClientId, topic: str, name: str, value: Plain, at: float
    ) -> None:
        event = str(value).lower() if isinstance(value, bool) else _plain_text(value)
        payload = _object(
            (
                ("event_type", _json(event)),
                ("topic", _json(topic)),
                ("name", _json(name)),
                ("at", _json(utc(self.unix_s_at_zero + at))),
            )
        )
        self._append(Change(client_id, payload.encode(), at, is_event=True))

    def _append(self, change: Change) -> None:
        if len(self._changes) >= CHANGES_MAX:
            old = self._changes.popleft()
            self._note(old.client_id, "", "more changes than can be published: some are left out")
        self._changes.append(change)

    # What is left out

    def _name_what_is_missing(self, client_id: ClientId, topic: str, content: Content) -> None:
        if content.problem:
            self._note(client_id, topic, f"no values: {content.problem}")
        if content.cut:
            reason = f"more than {self._characters_max} characters of text are cut"
            self._leave_out(client_id, topic, f"{reason} (home_assistant.text_characters_max)")
        if content.is_more:
            reason = f"more than {self._values_max} values (home_assistant.values_per_device_max)"
            self._leave_out(client_id, topic, reason)

    def _leave_out(self, client_id: ClientId, topic: str, reason: str) -> None:
        if self._note(client_id, topic, reason):
            self._left_out_count += 1
            if self._left_out is None:
                self._left_out = f"{client_id!r} on {topic!r}: {reason}"

    def _note(self, client_id: ClientId, topic: str, reason: str) -> bool:
        """Whether it is one that was not named yet."""
        note = (client_id, topic, reason)
        if note in self._named or len(self._named) >= NOTES_MAX:
            return False
        self._named.add(note)
        self._notes.append(f"{client_id!r} on {topic!r}: {reason}")
        return True


def _is_change(before: Plain | None, value: Plain | None) -> bool:
    """Of what is published at each change: anything but from number to number."""
    if isinstance(before, bool | str) or isinstance(value, bool | str):
        return type(before) is not type(value) or before != value
    return (before is None) is not (value is None)


def _is_worth_it(last: _LastValue, value: Plain | None) -> bool:
    """Whether a number has changed by so much that it is to be published."""
    before = last.published
    if isinstance(value, str) or isinstance(before, str) or value is None or before is None:
        return not last.rule.min_change
    return abs(value - before) >= last.rule.min_change


def _plain_text(value: Plain) -> str:
    return value if isinstance(value, str) else number_text(value)


def _json(value: Plain | None) -> str:
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return number_text(value)


def _object(members: Iterator[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    return f"{{{','.join(f'{_json(key)}:{value}' for key, value in members)}}}"


def _array(*items: str) -> str:
    return f"[{','.join(items)}]"
