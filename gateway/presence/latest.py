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

from gateway.core.effects import ClientId, Forward
from gateway.presence.values import Value, found_in, values_of

STRANDS_MAX = 20_000
STRANDS_OF_ONE_MAX = 16
GIVE_WAY = 20  # one in so many
SERIES_MAX = 4
POINTS_MAX = 32
DECODED_MAX = 500  # 10 ms of a second


class Strand:
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
        self.noted: Callable[[Strand, list[Value]], None] | None = None  # hears of each, decoded
        self._strands: dict[tuple[ClientId, str], Strand] = {}
        self._of_client: dict[ClientId, list[Strand]] = {}
        self._fresh: dict[Strand, None] = {}
        self._is_full = False

    # From the engine

    def hear(self, forward: Forward) -> None:
        key = (forward.client_id, forward.topic)
        strand = self._strands.get(key) or self._begin(key)
        if strand is not None:
            strand.payload = forward.payload
            strand.at = forward.received_at
            strand.qos = forward.qos
            strand.retain = forward.retain
            strand.count += 1
            self._fresh[strand] = None

    def _begin(self, key: tuple[ClientId, str]) -> Strand | None:
        client_id, topic = key
        strands = self._of_client.get(client_id, [])
        if len(strands) >= STRANDS_OF_ONE_MAX:
            self._forget(min(strands, key=_heard_at))
        elif len(self._strands) >= STRANDS_MAX:
            self._is_full = True
            return None
        strand = self._strands[key] = Strand(client_id, topic)
        self._of_client.setdefault(client_id, []).append(strand)
        return strand

    # From the daemon

    def beat(self) -> None:
        """Once a second."""
        for strand in list(islice(self._fresh, DECODED_MAX)):
            del self._fresh[strand]
            values = found_in(strand.payload)
            strand.note(values)
            if self.noted is not None:
                self.noted(strand, values)
        if self._is_full:
            self._is_full = False
            oldest = nsmallest(STRANDS_MAX // GIVE_WAY, self._strands.values(), key=_heard_at)
            for strand in oldest:
                self._forget(strand)

    def forget(self, client_id: ClientId) -> None:
        for strand in self._of_client.get(client_id, [])[:]:
            self._forget(strand)

    # From the page

    def __len__(self) -> int:
        return len(self._strands)

    def of(self, client_id: str) -> list[Strand]:
        """What one sensor said, the newest first."""
        strands = self._of_client.get(ClientId(client_id), ())
        return sorted(strands, key=_heard_at, reverse=True)

    def found(self, search: str, limit: int) -> tuple[list[Strand], int]:
        """The newest of those whose topic or sensor has `search` in it, and how many there are."""
        wanted = search.casefold()
        matching = [each for each in self._strands.values() if _matches(each, wanted)]
        return nlargest(limit, matching, key=_heard_at), len(matching)

    def _forget(self, strand: Strand) -> None:
        del self._strands[strand.client_id, strand.topic]
        self._fresh.pop(strand, None)
        strands = self._of_client[strand.client_id]
        strands.remove(strand)
        if not strands:
            del self._of_client[strand.client_id]


def _heard_at(strand: Strand) -> float:
    return strand.at


def _matches(strand: Strand, wanted: str) -> bool:
    return wanted in strand.topic.casefold() or wanted in strand.client_id.casefold()


def _in_range(value: float) -> float:
    """As a number of 32 bits can have it."""
    return max(-3e38, min(3e38, value))


# As JSON


def strands_json(strands: Iterable[Strand], now: float, unix_s: float) -> list[dict[str, object]]:
    return [strand_json(strand, now, unix_s) for strand in strands]


def strand_json(strand: Strand, now: float, unix_s: float) -> dict[str, object]:
    return {
        "client": strand.client_id,
        "topic": strand.topic,
        "heard_at": round(unix_s - max(0.0, now - strand.at), 1),
        "qos": strand.qos,
        "retain": strand.retain,
        "bytes": len(strand.payload),
        "count": strand.count,
        "values": list(_values_json(strand)),
    }


def _values_json(strand: Strand) -> Iterator[dict[str, object]]:
    for name, value, unit in values_of(strand.payload):
        past = strand.series.get(name)
        yield {
            "name": name,
            "value": value,
            "unit": unit,
            "past": [] if past is None else [float(f"{point:.6g}") for point in past],
        }
