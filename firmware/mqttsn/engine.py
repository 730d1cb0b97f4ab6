"""A node's side of MQTT-SN 1.2, without clock, network or random source of its own.

Rules
- One request is open at a time. It stands in `frame[:size]` until it is answered or given up, and
  `code` then says how it ended; `due()` says when to send it, and to send it again.
- What a frame that came has to be answered with stands in `answer[:answer_size]`; below 0 there is
  a message and no answer. Who has delivered the one and sent the other sets `answer_size` to 0;
  until then no request can be opened, and no other frame taken.
- Bytes that are no frame, or that a client is not told, change nothing; no bytes raise.
- Publishing allocates nothing.
- Every byte of this lies in a node's heap: names of constants begin with an underscore, by which
  they become numbers at compile time, and what few nodes need is elsewhere (`will.py`).

Limits: a frame of ours is as long as `frame`; TOPICS_MAX names have a number. With one more the
node forgets one that it had, and it or the gateway registers that again before the next use.
"""

from struct import pack_into

try:
    from micropython import const
except ImportError:
    from .cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# `state`. Who is asleep and has PINGREQ open is awake; who is away and has CONNECT open connects.
_AWAY = const(0)
_ACTIVE = const(1)
_ASLEEP = const(2)

# `code`: how the last request ended. Others above 0 are a gateway's (1.2, 5.3.10).
_INVALID_TOPIC = const(2)
_SILENCE = const(-1)  # nobody answered
_LOST = const(-2)  # the gateway does not know us, and said so by DISCONNECT

_TOPICS_MAX = const(16)

# Message types (5.2.2)
_CONNECT = const(0x04)
_CONNACK = const(0x05)
_WILLTOPICREQ = const(0x06)
_WILLMSGREQ = const(0x08)
_REGISTER = const(0x0A)
_REGACK = const(0x0B)
_PUBLISH = const(0x0C)
_PUBACK = const(0x0D)
_PUBCOMP = const(0x0E)
_PUBREC = const(0x0F)
_PUBREL = const(0x10)
_SUBSCRIBE = const(0x12)
_SUBACK = const(0x13)
_UNSUBSCRIBE = const(0x14)
_PINGREQ = const(0x16)
_PINGRESP = const(0x17)
_DISCONNECT = const(0x18)

# Bytes behind the type that each message has at least; FF: no client is told that. Where an answer
# has a return code it is the last of these, and a message id the two before that.
_LEAST = const(
    b"\xff\xff\xff\xff\xff\x01\x00\xff\x00\xff\x05\x05\x05\x05\x02\x02"
    b"\x02\xff\xff\x06\xff\x02\x00\x00\x00\xff\xff\x01\xff\x01"
)

_KIND_MAX = const(0x1D)

_DUP = const(0x80)
_RETAIN = const(0x10)
_PREDEFINED = const(1)  # topic id types
_SHORT = const(2)
_EARLIER = const(0x10000)  # beside the id of a message that came in an earlier connection
_UNKNOWN = const(0x20000)  # and where there was none
_RELEASED = const(0x10000)  # beside the id of a reading whose PUBREC came
_LONG = const(1 << 29)


class Engine:
    # What `open` and `receive` set before anything looks at it.
    _tries: int  # how often the open request was sent
    _flags_at: int  # where it has flags that say so
    _name_at: int  # where it has a name whose number the answer tells
    topic: "Any"  # of the message that came: a name, or a predefined id
    retained: int
    end: int  # of its payload

    def __init__(self, client_id: bytes, frame: bytearray, dice: "Callable[[int], int]") -> None:
        """`dice(bits)`: a random number of so many bits."""
        self.client_id = client_id
        self.frame = frame
        self.dice = dice
        self.will: Any = None  # of will.py
        self.keep_alive_s = 60  # 0: for ever
        self.retry_ms = 10_000  # T_retry: up to half of it more, by dice (7.2: 10 to 15 s)
        self.retries = 3  # N_retry
        self.topics: dict[bytes, int] = {}  # numbers by name
        self.answer = bytearray(8)
        # The id given last, which begins anywhere: those of the life before may still be known.
        self.message_id = dice(16)
        self.received = _UNKNOWN  # that of the last QoS 2 message
        # `reading_id`: that of the last QoS 1 or 2 publish; 0 before another one.
        # `flags`: of CONNECT, CleanSession and, with `will`, Will.
        # `wait_ms`: until `due` has something to do.
        self.reading_id = self.flags = self.state = self.size = self.wait_ms = 0
        self.code = self.answer_size = 0
        # Of the open request: which type answers it, and its message id.
        self._awaited = self._id = 0

    # Requests

    def open(self, kind: int, awaited: int, fixed: int, last: int, tail: bytes) -> int:
        """Open a request: `fixed` bytes, which begin where this returns, and `tail`.

        The last two of the fixed ones are a message id in all that have one, below 0 for the next,
        else a duration.
        """
        if self.answer_size:
            raise RuntimeError("callback")
        at = 2
        size = fixed + len(tail) + 2
        if size > 255:
            at = 4
            size += 2
        frame = self.frame
        if size > len(frame):
            raise ValueError(size)
        if last < 0:
            last = self.message_id = self.message_id % 0xFFFF + 1
        if at > 2:
            pack_into(">BH", frame, 0, 1, size)
        else:
            frame[0] = size
        frame[at - 1] = kind
        if fixed:
            pack_into(">H", frame, at + fixed - 2, last)
        frame[at + fixed : size] = tail
        self.size = size
        self.code = self.wait_ms = self._tries = self._flags_at = self._name_at = 0
        self._awaited = awaited
        self._id = last
        return at

    def connect(self) -> None:
        """A new connection; of one who sleeps, its end: then will and CleanSession do not count."""
        at = self.open(_CONNECT, _CONNACK, 4, self.keep_alive_s, self.client_id)
        self.frame[at] = 0 if self.state else self.flags
        self.frame[at + 1] = 1  # protocol id

    def publish(self, topic: bytes | int, payload: bytes, qos: int, retain: int) -> bool:
        """Open PUBLISH; or REGISTER, and return False, where the topic has no number yet.

        With QoS 1 and 2 it is once more the one of `reading_id`, unless that is 0.
        """
        number = self.number(topic)
        if not number:
            if qos < 0:
                raise ValueError(topic)
            assert isinstance(topic, bytes)
            at = self.open(_REGISTER, _REGACK, 4, -1, topic)
            self._name_at = at + 4
            self.frame[at] = self.frame[at + 1] = 0
            return False
        flags = (qos & 3) << 5 | number >> 16
        if retain:
            flags |= _RETAIN
        awaited = message_id = 0
        if qos > 0:
            awaited = _PUBACK if qos == 1 else _PUBREC
            message_id = -1
            if self.reading_id:
                flags |= _DUP
                message_id = self.reading_id & 0xFFFF
                if message_id != self.reading_id:
                    self.open(_PUBREL, _PUBCOMP, 2, message_id, b"")
                    return True
        at = self.open(_PUBLISH, awaited, 5, message_id, payload)
        pack_into(">BH", self.frame, at, flags, number & 0xFFFF)
        self._flags_at = at
        if qos > 0:
            self.reading_id = self._id
        return True

    def subscribe(self, topic: bytes | int, qos: int) -> None:
        """`qos` below 0: unsubscribe."""
        flags = self.number(topic) >> 16
        if isinstance(topic, int):
            topic = bytes((topic >> 8, topic & 255))
        kind = _UNSUBSCRIBE if qos < 0 else _SUBSCRIBE
        at = self.open(kind, kind + 1, 3, -1, topic)
        if not flags and qos >= 0:
            self._name_at = at + 3
        self.frame[at] = flags | (qos & 3) << 5
        self._flags_at = at

    # Time

    def due(self, elapsed_ms: int) -> int:
        """So many bytes of `frame` are to be sent now, after so much time has passed."""
        self.wait_ms -= elapsed_ms
        if self.wait_ms > 0:
            return 0
        if not self.size:
            self.close(0)
            if self.state != _ACTIVE or not self.keep_alive_s:
                return 0
            self.open(_PINGREQ, _PINGRESP, 0, 0, b"")
        if self._tries > self.retries:
            self.close(_SILENCE)
            return 0
        if self._tries and self._flags_at:
            self.frame[self._flags_at] |= _DUP
        self._tries += 1
        self.wait_ms = self.retry_ms + (self.dice(8) * self.retry_ms >> 9)
        size = self.size
        if not self._awaited:
            self.close(0)
        return size

    # From the gateway

    def receive(self, heard: bytearray, size: int) -> int:
        """Take a frame; where the payload begins of a message that it brought, else 0."""
        if self.answer_size:
            raise RuntimeError("callback")
        at = 2
        end = heard[0] if size > 1 else 0
        if end == 1 and size > 3:
            at = 4
            end = heard[1] << 8 | heard[2]
        kind = heard[at - 1]
        if not at <= end <= size or kind > _KIND_MAX or end - at < _LEAST[kind]:
            return 0
        self.end = end
        flags = heard[at]
        at += kind == _PUBLISH or kind == _SUBACK
        number = heard[at] << 8 | heard[at + 1]
        message_id = heard[at + 2] << 8 | heard[at + 3]
        if kind == self._awaited or kind == _PUBACK:
            self._settle(kind, number, message_id, heard[at + 4])
        elif kind == _WILLTOPICREQ or kind == _WILLMSGREQ:
            if self._awaited == _CONNACK and self.will:
                self.will.open(self, kind)
        elif self.state:
            if kind == _PUBLISH:
                return at + 4 if self._take(flags, number, message_id) else 0
            if kind == _REGISTER:
                self._learn(bytes(heard[at + 4 : end]), number)
            self._serve(kind, number, message_id)
        return 0

    def _serve(self, kind: int, number: int, message_id: int) -> None:
        """What a gateway says of its own."""
        if kind == _REGISTER:
            self._answer(7, _REGACK, number, message_id, 0)
        elif kind == _PUBREL:
            self._answer(4, _PUBCOMP, number, 0, 0)
        elif kind == _PINGREQ:
            self._answer(2, _PINGRESP, 0, 0, 0)
        elif kind == _DISCONNECT:
            self.close(_LOST)

    def _take(self, flags: int, number: int, message_id: int) -> bool:
        """Whether a message is to be delivered."""
        self.answer_size = -1
        kind = flags & 3
        topic: bytes | int | None = self._name(number)
        if kind:
            topic = number if kind == _PREDEFINED else bytes((number >> 8, number & 255))
        self.topic = topic
        self.retained = flags & _RETAIN
        if topic is None:
            self._answer(7, _PUBACK, number, message_id, _INVALID_TOPIC)
            return False
        if flags & 0x20:
            self._answer(7, _PUBACK, number, message_id, 0)
        elif flags & 0x40:
            self._answer(4, _PUBREC, message_id, 0, 0)
            # A gateway's ids ascend, and one that is not new belongs to a copy; but without DUP it
            # may in a new connection be that of a gateway that began again.
            known = self.received < (_UNKNOWN if flags & _DUP else _EARLIER)
            if known and message_id - self.received - 1 & 0x8000:
                return False
            self.received = message_id
        return True

    def _settle(self, kind: int, number: int, message_id: int, code: int) -> None:
        """An answer, if it is not too late; and PUBACK, which at any time may refuse a topic."""
        least = _LEAST[kind]
        if least < 5:
            code = number >> 8 if least == 1 else 0
            message_id = number if least == 2 else self._id
        elif kind == _PUBACK and code == _INVALID_TOPIC:
            self._learn(None, number)
        is_refused = code and self._awaited == _PUBREC  # QoS 2, by PUBACK
        if message_id != self._id or (kind != self._awaited and not is_refused):
            return
        if not code:
            if kind == _PUBREC:
                self.reading_id = message_id | _RELEASED
                self.open(_PUBREL, _PUBCOMP, 2, message_id, b"")
                return
            if kind == _CONNACK:
                # the gateway that answers may have given the numbers to other names
                if not self.state:
                    self.topics.clear()
                    self.received |= _EARLIER
                self.state = _ACTIVE
            elif kind == _DISCONNECT:
                self.state = _ASLEEP if message_id else _AWAY
            elif self._name_at:
                self._learn(bytes(self.frame[self._name_at : self.size]), number)
        self.close(code)

    # Parts

    def number(self, topic: bytes | int) -> int:
        """Topic id, with its type in front; 0 for a name that has none."""
        if isinstance(topic, int):
            return _PREDEFINED << 16 | topic
        if len(topic) == 2:
            return _SHORT << 16 | topic[0] << 8 | topic[1]
        return self.topics.get(topic, 0)

    def _name(self, number: int) -> bytes | None:
        for name in self.topics:
            if self.topics[name] == number:
                return name
        return None

    def _learn(self, name: bytes | None, number: int) -> None:
        """From now on the number is this name's, or none's."""
        former = self._name(number)
        if former is not None:
            del self.topics[former]
        if name and number:
            if name not in self.topics and len(self.topics) >= _TOPICS_MAX:
                self.topics.popitem()
            self.topics[name] = number

    def _answer(self, size: int, kind: int, first: int, second: int, code: int) -> None:
        pack_into(">BBHHB", self.answer, 0, size, kind, first, second, code)
        self.answer_size = size
        if self._awaited == _PINGRESP:  # it is there; PINGRESP comes when all else has
            self._tries = 1
            self.wait_ms = self.retry_ms

    def close(self, code: int) -> None:
        """End the open request."""
        self.size = self._awaited = 0
        self.code = code
        self.wait_ms = self.keep_alive_s * 750 or _LONG
        if code < 0:
            self.state = _AWAY
