"""A sensor for boards with 16 KiB of memory, such as the micro:bit: MQTT-SN 1.2 on a serial line.

It measures, publishes with QoS 1, and sleeps until the next reading, which the gateway is told;
what came meanwhile is fetched after each reading. Framing is the gateway's `hdlc`, on the console.

Rules
- MicroPython 1.9.2: no memoryview, no slices to assign to, no str.encode, no float in payloads.
- A board cannot compile all of this at once: `build.py` makes parts of it, by top-level statements.
- Calls are few deep: the stack of a micro:bit holds about eight, of which the loader is one.
- A reading stays until the gateway has acknowledged it, or says that it never will take it.
  _WAITING_MAX of them wait; the oldest gives its place to the next.
- No bytes that come raise anything. The console's Ctrl-C stops the sensor if it comes twice within
  half a second, so that a damaged byte does not; what else goes wrong is printed, and the board
  starts again.
- The board must hear a whole frame while it computes: _FRAME_OCTETS_MAX is the size of its ring.
"""

from microbit import sleep, uart
from micropython import const
from utime import ticks_add, ticks_diff, ticks_ms

# Settings, which `tidegate flash` writes again.
CLIENT_ID = b"tiny"
TOPIC = b"sensors/tiny"
COMMANDS = b""  # a topic: digits that come there are the seconds between readings
INTERVAL_S = 60
SENSOR = "temperature"  # or "simulated", or a pin: "pin0"
RETRY_MS = 2000

_RETRIES = const(3)
_WAITING_MAX = const(16)
_FRAME_OCTETS_MAX = const(64)
_INTERVAL_S_MAX = const(43200)
_KEEP_ALIVE_S = const(60)  # of the moments in which it is awake
_AGAIN_MS = const(500)  # within which a second Ctrl-C is meant
_ANEW_MS = const(3000)

_GOOD = const(0xF0B8)  # what `check` makes of a frame with its own check behind it
_POLYNOMIAL = const(0x8408)
_FLAG = const(0x7E)
_ESCAPE = const(0x7D)
_FLIP = const(0x20)
_XON = const(0x11)
_XOFF = const(0x13)

# Why a request failed; below 0 it is a gateway's return code (5.3.10).
_SILENCE = const(1)
_FORGOTTEN = const(2)
_INVALID_TOPIC = const(2)
_NOT_SUPPORTED = const(3)

# Message types (5.2.2)
_CONNECT = const(4)
_CONNACK = const(5)
_REGISTER = const(10)
_REGACK = const(11)
_PUBLISH = const(12)
_PUBACK = const(13)
_SUBSCRIBE = const(18)
_SUBACK = const(19)
_PINGREQ = const(22)
_PINGRESP = const(23)
_DISCONNECT = const(24)

_QOS_1 = const(0x20)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def check(octets: bytes | bytearray) -> int:
    """FCS-16 of RFC 1662."""
    fcs = 0xFFFF
    for octet in octets:
        fcs ^= octet
        for _ in range(8):
            fcs = fcs >> 1 ^ (_POLYNOMIAL if fcs & 1 else 0)
    return fcs


def framed(frame: bytes) -> bytearray:
    fcs = check(frame) ^ 0xFFFF
    line = bytearray(b"\x7e")
    for octet in frame + bytes((fcs & 255, fcs >> 8)):
        if octet in b"\x7e\x7d\x01\x02\x03\x04\x11\x13":
            line.append(_ESCAPE)
            octet ^= _FLIP
        line.append(octet)
    line.append(_FLAG)
    return line


def frames(read: "Callable[[], bytes | None]") -> "Iterator[bytes | None]":
    """Each that comes, and None whenever none does. `read()`: some bytes, or None."""
    held = bytearray()
    flip = 0
    while True:
        octets = read()
        if not octets:
            yield None
            continue
        for octet in octets:
            if octet == _FLAG:
                size = len(held) - 2
                is_one = 2 <= size <= _FRAME_OCTETS_MAX and held[0] == size and not flip
                if is_one and check(held) == _GOOD:
                    yield bytes(held[:size])
                held = bytearray()
                flip = 0
            elif octet == _ESCAPE:
                flip = _FLIP
            elif octet != _XON and octet != _XOFF and len(held) < _FRAME_OCTETS_MAX + 3:
                held.append(octet ^ flip)
                flip = 0


def two(number: int) -> bytes:
    return bytes((number >> 8, number & 255))


# The conversation. Topic ids are 0 where the gateway is yet to be told the names.
message_id = topic_id = commands_id = 0
is_asleep = False
command = b""
heard: "Iterator[bytes | None]"


def next_id() -> bytes:
    global message_id
    message_id = message_id % 0xFFFF + 1
    return two(message_id)


def is_answer(frame: bytes) -> bool:
    """To the open request, which has the latest message id. Raises what it refuses with."""
    kind = frame[1]
    code = 0
    if kind == _CONNACK:
        code = frame[2]
    elif kind < _PINGREQ:
        at = 5 if kind == _SUBACK else 4
        code = frame[at + 2]
        if frame[at : at + 2] != two(message_id):
            return False
    if code:
        raise OSError(-code)
    return True


def reply(frame: bytes) -> bytes:
    """To what the gateway says of its own; nothing to most of it."""
    global command, commands_id
    kind = frame[1]
    if kind == _DISCONNECT:
        raise OSError(_FORGOTTEN)
    if kind == _PUBLISH:
        code = b"\2"
        if not frame[2] & 3 and frame[3:5] == two(commands_id):
            command = frame[7:]
            code = b"\0"
        if frame[2] & _QOS_1 or code == b"\2":
            return b"\7\x0d" + frame[3:7] + code
    elif kind == _REGISTER:
        if frame[6:] == COMMANDS:
            commands_id = frame[2] << 8 | frame[3]
        return b"\7\x0b" + frame[2:6] + b"\0"
    elif kind == _PINGREQ:
        return b"\2\x17"
    return b""


def ask(kind: int, awaited: int, body: bytes) -> bytes:
    """Send a request until it is answered: the answer. Raises OSError with a number from above."""
    for attempt in range(_RETRIES + 1):
        if attempt and kind == _PUBLISH:
            body = b"\xa0" + body[1:]  # with DUP
        uart.write(framed(bytes((len(body) + 2, kind)) + body))
        end = ticks_add(ticks_ms(), RETRY_MS + (message_id + attempt) * 31 % 512)
        while ticks_diff(end, ticks_ms()) > 0:
            frame = next(heard)
            if frame is None:
                sleep(1)
                continue
            try:
                if frame[1] == awaited and is_answer(frame):
                    return frame
                said = reply(frame)
            except IndexError:
                continue  # too short for what it is
            if said:
                uart.write(framed(said))
                end = ticks_add(ticks_ms(), RETRY_MS)
    raise OSError(_SILENCE)


def connect() -> None:
    """All that a gateway is told which does not know us."""
    global commands_id, is_asleep, topic_id
    is_asleep = False
    ask(_CONNECT, _CONNACK, b"\0\1" + two(_KEEP_ALIVE_S) + CLIENT_ID)
    if COMMANDS:
        answer = ask(_SUBSCRIBE, _SUBACK, b"\x20" + next_id() + COMMANDS)
        commands_id = answer[3] << 8 | answer[4]
    answer = ask(_REGISTER, _REGACK, b"\0\0" + next_id() + TOPIC)
    topic_id = answer[2] << 8 | answer[3]


def text(octets: bytes) -> bytes:
    """CBOR"""
    size = len(octets)
    return bytes((0x60 + size,) if size < 24 else (0x78, size)) + octets


def whole(number: int) -> bytes:
    """CBOR; two bytes at most."""
    major = 0
    if number < 0:
        major = 0x20
        number = -1 - number
    if number < 24:
        return bytes((major + number,))
    return bytes((major + 25, number >> 8, number & 255))  # `two` would be a call too deep


def senml(value: int, age_s: int) -> bytes:
    """RFC 8428: base name, name, unit, value, and a time below 2**28, which counts from now."""
    is_pin = SENSOR[:3] == "pin"
    pack = b"\x21" + text(CLIENT_ID + b"/") + b"\0"
    pack += text(bytes(SENSOR, "utf8") if is_pin else b"temperature") + b"\1"
    pack += text(b"count" if is_pin else b"Cel") + b"\2" + whole(value)
    if age_s > 0:
        return b"\x81\xa5" + pack + b"\6" + whole(-min(age_s, 0xFFFF))
    return b"\x81\xa4" + pack


def measure() -> int:
    import microbit

    value: int = 18 + ticks_ms() // 1000 % 7
    if SENSOR == "temperature":
        value = microbit.temperature()
    elif SENSOR != "simulated":
        value = getattr(microbit, SENSOR).read_analog()
    return value


def deliver(waiting: "list[tuple[int, int]]") -> None:
    """All readings that wait, as ticks and value. Then be asleep, and fetch what waits there."""
    global is_asleep
    while waiting:
        at, value = waiting[0]
        payload = senml(value, ticks_diff(ticks_ms(), at) // 1000)
        ask(_PUBLISH, _PUBACK, b"\x20" + two(topic_id) + next_id() + payload)
        waiting.pop(0)
    if not is_asleep:
        ask(_DISCONNECT, _DISCONNECT, two(INTERVAL_S + INTERVAL_S // 4 + 5))
        is_asleep = True
    ask(_PINGREQ, _PINGRESP, CLIENT_ID)


def is_over(code: int, waiting: "list[tuple[int, int]]") -> bool:
    """Whether what failed with this is to be tried next time, and not at once."""
    global topic_id
    if code == -_NOT_SUPPORTED and topic_id:
        waiting.pop(0)
    elif code == _FORGOTTEN or code == -_INVALID_TOPIC:
        topic_id = 0
    else:
        return True
    return False


def obey() -> None:
    """The command that came last, if it is one."""
    global INTERVAL_S, command, is_asleep
    if command.isdigit() and 0 < int(command) <= _INTERVAL_S_MAX:
        INTERVAL_S = int(command)
        is_asleep = False
    command = b""


def begin() -> None:
    global heard, message_id
    from machine import unique_id

    message_id = check(unique_id()) ^ ticks_ms() & 0xFFFF  # not the same each time
    waiting: list[tuple[int, int]] = []
    while True:
        heard = frames(lambda: uart.read(16))
        try:
            at = ticks_ms()
            waiting.append((at, measure()))
            if len(waiting) > _WAITING_MAX:
                waiting.pop(0)
            for _ in range(2):
                try:
                    if not topic_id:
                        connect()
                    deliver(waiting)
                    break
                except OSError as error:
                    if is_over(error.args[0], waiting):
                        break
            obey()
            sleep(max(1, INTERVAL_S * 1000 - ticks_diff(ticks_ms(), at)))
        except KeyboardInterrupt:
            try:
                sleep(_AGAIN_MS)
            except KeyboardInterrupt:
                return
        except Exception as error:
            from sys import print_exception  # type: ignore[attr-defined]

            from microbit import reset

            print_exception(error)
            sleep(_ANEW_MS)
            reset()


begin()
