"""The last reading of each sensor and topic, with the past of its numbers, for the status page.

A *series* is one topic of one sensor. To record a reading costs a look into a dictionary and a few
assignments; its payload is decoded once a second (`beat`), for what came since then. The engine
passes readings on only while a page is open or few come (sampler.py): at full load without a page
the path of a reading costs nothing more.

Limits: SERIES_MAX series, of one sensor SERIES_OF_ONE_MAX; when they are full, the twentieth of
them that was received the longest ago is removed at the next beat. A series keeps its last payload,
and POINTS_MAX numbers for each of NAMES_MAX names. That is 1.2 KiB for a sensor with one topic and
three numbers, 12 MiB for 10,000 of them. A beat decodes at most DECODED_MAX payloads; the others
are decoded at the next one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest, nsmallest
from itertools import islice

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.presence.values import Value, found_in, values_of

SERIES_MAX = 20_000
SERIES_OF_ONE_MAX = 16
GIVE_WAY = 20  # one in so many
NAMES_MAX = 4
POINTS_MAX = 32
DECODED_MAX = 500  # 10 ms of a second


class Series:
    __slots__ = ("at", "client_id", "count", "payload", "points", "qos", "retain", "topic")

    def __init__(self, client_id: ClientId, topic: str) -> None:
        self.client_id = client_id
        self.topic = topic
        self.payload = b""
        self.at = 0.0  # in monotonic seconds
        self.qos = 0
        self.retain = False
        self.count = 0  # readings recorded
        self.points: dict[str, array[float]] = {}  # by the value's name, the oldest first

    def add(self, values: Iterable[Value]) -> None:
        """The numbers of its payload become the newest ones of its past."""
        for name, value, _unit in values:
            if isinstance(value, str):
                continue
            points = self.points.get(name)
            if points is None:
                if len(self.points) >= NAMES_MAX:
                    continue
                points = self.points[name] = array("f")
            if len(points) >= POINTS_MAX:
                del points[0]
            points.append(_in_range(float(value)))


class Latest:
    def __init__(self) -> None:
        self.on_reading: Callable[[Reading], None] | None = None  # called with each reading
        self._series: dict[tuple[ClientId, str], Series] = {}
        self._of_client: dict[ClientId, list[Series]] = {}
        self._fresh: dict[Series, None] = {}
        self._is_full = False

    # From the engine

    def receive(self, reading: Reading) -> None:
        key = (reading.client_id, reading.topic)
        one_series = self._series.get(key) or self._add(key)
        if one_series is not None:
            one_series.payload = reading.payload
            one_series.at = reading.received_at
            one_series.qos = reading.qos
            one_series.retain = reading.retain
            one_series.count += 1
            self._fresh[one_series] = None
        if self.on_reading is not None:
            self.on_reading(reading)

    def _add(self, key: tuple[ClientId, str]) -> Series | None:
        client_id, topic = key
        series = self._of_client.get(client_id, [])
        if len(series) >= SERIES_OF_ONE_MAX:
            self._forget(min(series, key=_received_at))
        elif len(self._series) >= SERIES_MAX:
            self._is_full = True
            return None
        one_series = self._series[key] = Series(client_id, topic)
        self._of_client.setdefault(client_id, []).append(one_series)
        return one_series

    # From the daemon

    def beat(self) -> None:
        """Once a second."""
        for one_series in list(islice(self._fresh, DECODED_MAX)):
            del self._fresh[one_series]
            one_series.add(found_in(one_series.payload))
        if self._is_full:
            self._is_full = False
            oldest = nsmallest(SERIES_MAX // GIVE_WAY, self._series.values(), key=_received_at)
            for one_series in oldest:
                self._forget(one_series)

    def forget(self, client_id: ClientId) -> None:
        for one_series in self._of_client.get(client_id, [])[:]:
            self._forget(one_series)

    # From the page

    def __len__(self) -> int:
        return len(self._series)

    def of(self, client_id: str) -> list[Series]:
        """The series of one sensor, the newest first."""
        series = self._of_client.get(ClientId(client_id), ())
        return sorted(series, key=_received_at, reverse=True)

    def found(self, search: str, limit: int) -> tuple[list[Series], int]:
        """The newest of those whose topic or sensor has `search` in it, and how many there are."""
        wanted = search.casefold()
        matching = [each for each in self._series.values() if _matches(each, wanted)]
        return nlargest(limit, matching, key=_received_at), len(matching)

    def _forget(self, one_series: Series) -> None:
        del self._series[one_series.client_id, one_series.topic]
        self._fresh.pop(one_series, None)
        series = self._of_client[one_series.client_id]
        series.remove(one_series)
        if not series:
            del self._of_client[one_series.client_id]


def _received_at(one_series: Series) -> float:
    return one_series.at


def _matches(one_series: Series, wanted: str) -> bool:
    return wanted in one_series.topic.casefold() or wanted in one_series.client_id.casefold()


def _in_range(value: float) -> float:
    """As a number of 32 bits can have it."""
    return max(-3e38, min(3e38, value))


# As JSON


def series_json(series: Iterable[Series], now: float, unix_s: float) -> list[dict[str, object]]:
    return [_one_json(one_series, now, unix_s) for one_series in series]


def _one_json(one_series: Series, now: float, unix_s: float) -> dict[str, object]:
    return {
        "client": one_series.client_id,
        "topic": one_series.topic,
        "heard_at": round(unix_s - max(0.0, now - one_series.at), 1),
        "qos": one_series.qos,
        "retain": one_series.retain,
        "bytes": len(one_series.payload),
        "count": one_series.count,
        "values": list(_values_json(one_series)),
    }


def _values_json(one_series: Series) -> Iterator[dict[str, object]]:
    for name, value, unit in values_of(one_series.payload):
        past = one_series.points.get(name)
        yield {
            "name": name,
            "value": value,
            "unit": unit,
            "past": [] if past is None else [float(f"{point:.6g}") for point in past],
        }
