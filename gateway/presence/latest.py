"""What sensors said last, for those who look: by sensor and topic, with the past of its numbers.

A *strand* is one topic of one sensor. Hearing a reading costs a look into a dictionary and three
assignments; what its payload says is found out once a second (`beat`), for what came since then.
The engine lets us hear only while somebody looks or little comes (sampler.py): at full load with
nobody looking the way of a reading costs nothing more.

Limits: STRANDS_MAX strands, of one sensor STRANDS_OF_ONE_MAX; when they are full, the twentieth of
them that was heard the longest ago gives way at the next beat. A strand keeps its last payload, and
POINTS_MAX numbers for each of SERIES_MAX names. That is 1.2 KiB for a sensor with one topic and
three numbers, 12 MiB for 10,000 of them. A beat reads at most DECODED_MAX payloads; the others are
read at the next one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest, nsmallest
from itertools import islice

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.presence.values import Value, found_in, values_of

STRANDS_MAX = 20_000
STRANDS_OF_ONE_MAX = 16
GIVE_WAY = 20  # one in so many
SERIES_MAX = 4
POINTS_MAX = 32
DECODED_MAX = 500  # 10 ms of a second


class Series:
    __slots__ = ("at", "client_id", "count", "payload", "qos", "retain", "series", "topic")

    def __init__(self, client_id: ClientId, topic: str) -> None:
        self.client_id = client_id
        self.topic = topic
        self.payload = b""
        self.at = 0.0  # in monotonic seconds
        self.qos = 0
        self.retain = False
        self.count = 0  # heard by us
        self.series: dict[str, array[float]] = {}  # by the value's name, the oldest first

    def note(self, values: Iterable[Value]) -> None:
        """The numbers of its payload become the newest ones of its past."""
        for name, value, _unit in values:
            if isinstance(value, str):
                continue
            points = self.series.get(name)
            if points is None:
                if len(self.series) >= SERIES_MAX:
                    continue
                points = self.series[name] = array("f")
            if len(points) >= POINTS_MAX:
                del points[0]
            points.append(_in_range(float(value)))


class Latest:
    def __init__(self) -> None:
        self.noted: Callable[[Series, list[Value]], None] | None = None  # hears of each, decoded
        self._series: dict[tuple[ClientId, str], Series] = {}
        self._of_client: dict[ClientId, list[Series]] = {}
        self._fresh: dict[Series, None] = {}
        self._is_full = False

    # From the engine

    def hear(self, reading: Reading) -> None:
        key = (reading.client_id, reading.topic)
        one_series = self._series.get(key) or self._begin(key)
        if one_series is not None:
            one_series.payload = reading.payload
            one_series.at = reading.received_at
            one_series.qos = reading.qos
            one_series.retain = reading.retain
            one_series.count += 1
            self._fresh[one_series] = None

    def _begin(self, key: tuple[ClientId, str]) -> Series | None:
        client_id, topic = key
        series = self._of_client.get(client_id, [])
        if len(series) >= STRANDS_OF_ONE_MAX:
            self._forget(min(series, key=_heard_at))
        elif len(self._series) >= STRANDS_MAX:
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
            values = found_in(one_series.payload)
            one_series.note(values)
            if self.noted is not None:
                self.noted(one_series, values)
        if self._is_full:
            self._is_full = False
            oldest = nsmallest(STRANDS_MAX // GIVE_WAY, self._series.values(), key=_heard_at)
            for one_series in oldest:
                self._forget(one_series)

    def forget(self, client_id: ClientId) -> None:
        for one_series in self._of_client.get(client_id, [])[:]:
            self._forget(one_series)

    # From the page

    def __len__(self) -> int:
        return len(self._series)

    def of(self, client_id: str) -> list[Series]:
        """What one sensor said, the newest first."""
        series = self._of_client.get(ClientId(client_id), ())
        return sorted(series, key=_heard_at, reverse=True)

    def found(self, search: str, limit: int) -> tuple[list[Series], int]:
        """The newest of those whose topic or sensor has `search` in it, and how many there are."""
        wanted = search.casefold()
        matching = [each for each in self._series.values() if _matches(each, wanted)]
        return nlargest(limit, matching, key=_heard_at), len(matching)

    def _forget(self, one_series: Series) -> None:
        del self._series[one_series.client_id, one_series.topic]
        self._fresh.pop(one_series, None)
        series = self._of_client[one_series.client_id]
        series.remove(one_series)
        if not series:
            del self._of_client[one_series.client_id]


def _heard_at(one_series: Series) -> float:
    return one_series.at


def _matches(one_series: Series, wanted: str) -> bool:
    return wanted in one_series.topic.casefold() or wanted in one_series.client_id.casefold()


def _in_range(value: float) -> float:
    """As a number of 32 bits can have it."""
    return max(-3e38, min(3e38, value))


# As JSON


def strands_json(series: Iterable[Series], now: float, unix_s: float) -> list[dict[str, object]]:
    return [strand_json(one_series, now, unix_s) for one_series in series]


def strand_json(one_series: Series, now: float, unix_s: float) -> dict[str, object]:
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
        past = one_series.series.get(name)
        yield {
            "name": name,
            "value": value,
            "unit": unit,
            "past": [] if past is None else [float(f"{point:.6g}") for point in past],
        }
