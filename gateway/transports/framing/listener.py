"""What a serial port says, for `tidegate doctor --listen`: all framings at once, and then in words.

- Frames with a right FCS prove themselves; SLIP and bare messages are believed only if they decode,
  and bare ones only if most of what came is in them.
- Of what is no frame, text is told from noise by how much of it can be printed.
- Nothing is kept but counts, the last lines of text, and at most NODES_MAX node ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from gateway.frames import Forwarded, MalformedFrame, decode
from gateway.transports.framing.chatter import ASCII_TEXT, Tell
from gateway.transports.framing.delimited import DelimitedFraming
from gateway.transports.framing.hdlc import DEFAULT_ESCAPES, HdlcFrames
from gateway.transports.framing.raw import GAP_S, RawFraming
from gateway.transports.framing.slip import SlipFrames
from gateway.transports.framing.text_kinds import BOOT_ROM, TextHeard

NODES_MAX = 1000
MESSAGE_BYTES_MAX = 4096  # no sensor sends longer ones over a serial line

# Of noise some 40 % can be printed; of text almost all, even with a glitch at its beginning.
_TEXT_SHARE_MIN = 0.85
_RAW_SHARE_MIN = 0.5
_ZERO_SHARE_MIN = 0.9
# Any octet makes up 0.4 % of noise, and a mark 2 % and more of frames of 100 octets.
_MARK_SHARE_MIN = 0.02
_MARKS_MIN = 8
_USUAL_BAUDS = (9600, 57_600, 74_880, 115_200, 230_400, 460_800, 921_600)


class What(Enum):
    HDLC = "hdlc"
    SLIP = "slip"
    RAW = "raw"
    OTHER_FRAMES = "other frames"
    TEXT = "text"
    NOISE = "noise"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Heard:
    """`bad_share` is of all frames. `lines` are the last lines of text, if any."""

    what: What
    text: str  # in words, for the operator
    advice: str
    nodes: int = 0
    messages: int = 0
    bad_share: float = 0.0
    lines: tuple[str, ...] = ()


_HDLC_ADVICE = 'framing = "hdlc" in its [[serial]], the default'
_SLIP_ADVICE = (
    'set framing = "slip" in its [[serial]]; "hdlc" has a check, if the board can speak it'
)
_RAW_ADVICE = 'set framing = "raw" in its [[serial]]; "hdlc" has a check, if the board can speak it'
_OTHER_FRAMES = (
    (
        0x7E,
        "frames between octets 7E, none with the FCS of RFC 1662: another check, or XBee API mode",
        "set an XBee to transparent mode (AP=0); docs/serial.md has the frames that are understood",
    ),
    (
        0xC0,
        "frames between octets C0, but no MQTT-SN in them: SLIP that carries IP, probably",
        "attach it with slattach, and let its sensors come over UDP",
    ),
)


class LineListener:
    def __init__(self, baud: int) -> None:
        self._baud = baud
        hdlc = HdlcFrames(MESSAGE_BYTES_MAX, DEFAULT_ESCAPES)
        slip = SlipFrames(MESSAGE_BYTES_MAX)
        self._hdlc = _Speaker(lambda tell: DelimitedFraming(hdlc, tell))
        self._slip = _Speaker(lambda tell: DelimitedFraming(slip, tell))
        self._raw = _Speaker(lambda tell: RawFraming(MESSAGE_BYTES_MAX, GAP_S, tell))
        self._octets: Counter[int] = Counter()
        self._text = TextHeard()  # if it is nothing else

    def feed(self, octets: bytes, now: float) -> None:
        self._octets.update(octets)
        self._text.feed(octets)
        for speaker in (self._hdlc, self._slip, self._raw):
            speaker.feed(octets, now)

    def wait_s(self, now: float) -> float | None:
        """How long until `feed(b"", now)` should be called if nothing comes."""
        return self._raw.framing.wait_s(now)

    def heard(self, listened_s: float) -> Heard:
        """When it is over: what all of it was."""
        self.feed(b"", float("inf"))
        self._text.finish()
        if not self._octets:
            return _nothing(listened_s)
        return (
            self._frames() or self._foreign() or self._printed() or self._marked() or self._noise()
        )

    def _frames(self) -> Heard | None:
        octets = self._octets.total()
        if self._hdlc.counters.good:
            return self._spoken(What.HDLC, self._hdlc, "RFC 1662 frames", "bad FCS", _HDLC_ADVICE)
        if self._slip.counters.good:
            return self._spoken(What.SLIP, self._slip, "SLIP frames", "no message", _SLIP_ADVICE)
        if self._raw.message_octets >= _RAW_SHARE_MIN * octets:
            name = "MQTT-SN without framing (raw)"
            return self._spoken(What.RAW, self._raw, name, "no message", _RAW_ADVICE)
        return None

    def _spoken(self, what: What, speaker: _Speaker, name: str, fault: str, advice: str) -> Heard:
        counters = speaker.counters
        bad = counters.bad_check + counters.too_long + counters.aborted
        bad_share = bad / (bad + counters.good)
        nodes = len(speaker.nodes)
        text = f"{name}, {_counted(nodes)}, {_percent(bad_share)} {fault}"
        if speaker.text.lines:
            text += f"; between them text: looks like {speaker.text.kind().looks_like}"
        restarts = speaker.text.restarts()
        if restarts is not None:
            text += f"; {restarts}"
        lines = tuple(speaker.text.lines)
        return Heard(
            what=what,
            text=text,
            advice=advice,
            nodes=nodes,
            messages=counters.good,
            bad_share=bad_share,
            lines=lines,
        )

    def _foreign(self) -> Heard | None:
        if not self._hdlc.counters.not_messages:
            return None
        return Heard(
            What.OTHER_FRAMES,
            "RFC 1662 frames with a right FCS, but no MQTT-SN in them: PPP, probably",
            "this is not the port of a sensor, or its program has another protocol",
        )

    def _printed(self) -> Heard | None:
        octets = self._octets.total()
        if sum(self._octets[octet] for octet in ASCII_TEXT) < _TEXT_SHARE_MIN * octets:
            return None
        kind, restarts = self._text.kind(), self._text.restarts()
        text, advice = f"text: looks like {kind.looks_like}", kind.advice
        if kind is BOOT_ROM:
            text = f"{kind.looks_like} at {self._baud} baud"
        if restarts is not None:
            text += f"; {restarts}"
            advice = "its program crashes at once, or its supply is too weak (a short, thick cable)"
        return Heard(What.TEXT, text, advice, lines=tuple(self._text.lines))

    def _marked(self) -> Heard | None:
        for mark, text, advice in _OTHER_FRAMES:
            marks = self._octets[mark]
            if marks >= _MARKS_MIN and marks >= _MARK_SHARE_MIN * self._octets.total():
                return Heard(What.OTHER_FRAMES, text, advice)
        return None

    def _noise(self) -> Heard:
        if self._octets[0] >= _ZERO_SHARE_MIN * self._octets.total():
            text = "zeros only: the line is held low, or this baud rate is far too high"
            return Heard(What.NOISE, text, "see whether the board is powered and TX is on our RX")
        others = ", ".join(str(baud) for baud in _USUAL_BAUDS if baud != self._baud)
        return Heard(
            What.NOISE,
            f"noise at {self._baud} baud: probably another baud rate",
            f"try --baud with one of {others}; if none fits, see whether both sides share a ground",
        )


class _Speaker:
    """What came if the line speaks this framing."""

    def __init__(self, framing_with: Callable[[Tell], DelimitedFraming | RawFraming]) -> None:
        self.text = TextHeard()
        self.framing = framing_with(self.text.hear)
        self.counters = self.framing.counters
        self.nodes: set[bytes] = set()
        self.message_octets = 0

    def feed(self, octets: bytes, now: float) -> None:
        for message in self.framing.feed(octets, now):
            self.message_octets += len(message)
            if len(self.nodes) < NODES_MAX:
                self.nodes.add(_node_of(message))


def _node_of(message: bytes) -> bytes:
    """Behind a forwarder its id; empty is the one at the other end of the line."""
    try:
        frame = decode(message)
    except MalformedFrame:
        return b""
    return frame.node_id if isinstance(frame, Forwarded) else b""


def _counted(nodes: int) -> str:
    if nodes == 1:
        return "1 node"
    return f"{nodes} nodes" + (" or more" if nodes == NODES_MAX else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share else "0 %"


def _nothing(listened_s: float) -> Heard:
    return Heard(
        What.NOTHING,
        f"nothing in {listened_s:.0f} s",
        "see whether the board is powered and its TX is on our RX; a sensor that sleeps is silent "
        "for minutes: listen longer, or press the board's reset button meanwhile",
    )
