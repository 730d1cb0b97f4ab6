"""What comes over a serial port, for `tidegate doctor --listen`: all framings at once, then a text.

- Frames with a right FCS need no other proof; SLIP and bare messages count only if they decode, and
  bare ones only if most of what came is in them.
- Of what is no frame, text and noise differ by how much of it can be printed.
- Nothing is kept but counts, the last lines of text, and at most NODES_MAX node ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from gateway.frames import Forwarded, MalformedFrame, decode
from gateway.transports.framing.chatter import ASCII_TEXT, OnLine
from gateway.transports.framing.delimited import DelimitedFraming
from gateway.transports.framing.hdlc import DEFAULT_ESCAPES, HdlcFrames
from gateway.transports.framing.raw import GAP_S, RawFraming
from gateway.transports.framing.slip import SlipFrames
from gateway.transports.framing.text_kinds import BOOT_ROM, TextLines

NODES_MAX = 1000
MESSAGE_BYTES_MAX = 4096  # no sensor sends longer ones over a serial line

# Of noise some 40 % can be printed; of text almost all, even with a glitch at its beginning.
_TEXT_SHARE_MIN = 0.85
_RAW_SHARE_MIN = 0.5
_ZERO_SHARE_MIN = 0.9
# Any byte makes up 0.4 % of noise, and a mark 2 % and more of frames of 100 bytes.
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
class LineContent:
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
        "frames between bytes 7E, none with the FCS of RFC 1662: another check, or XBee API mode",
        "set an XBee to transparent mode (AP=0); docs/serial.md has the frames that are understood",
    ),
    (
        0xC0,
        "frames between bytes C0, but no MQTT-SN in them: SLIP that carries IP, probably",
        "attach it with slattach, and let its sensors come over UDP",
    ),
)


class LineAnalysis:
    def __init__(self, baud: int) -> None:
        self._baud = baud
        hdlc = HdlcFrames(MESSAGE_BYTES_MAX, DEFAULT_ESCAPES)
        slip = SlipFrames(MESSAGE_BYTES_MAX)
        self._hdlc = _Decoder(lambda on_line: DelimitedFraming(hdlc, on_line))
        self._slip = _Decoder(lambda on_line: DelimitedFraming(slip, on_line))
        self._raw = _Decoder(lambda on_line: RawFraming(MESSAGE_BYTES_MAX, GAP_S, on_line))
        self._bytes: Counter[int] = Counter()
        self._text = TextLines()  # if it is nothing else

    def feed(self, chunk: bytes, now: float) -> None:
        self._bytes.update(chunk)
        self._text.feed(chunk)
        for decoder in (self._hdlc, self._slip, self._raw):
            decoder.feed(chunk, now)

    def wait_s(self, now: float) -> float | None:
        """How long until `feed(b"", now)` should be called if nothing comes."""
        return self._raw.framing.wait_s(now)

    def result(self, listened_s: float) -> LineContent:
        """At the end: what all of it was."""
        self.feed(b"", float("inf"))
        self._text.finish()
        if not self._bytes:
            return _nothing(listened_s)
        return (
            self._frames() or self._foreign() or self._printed() or self._marked() or self._noise()
        )

    def _frames(self) -> LineContent | None:
        total = self._bytes.total()
        if self._hdlc.counters.good:
            return self._of_frames(
                What.HDLC, self._hdlc, "RFC 1662 frames", "bad FCS", _HDLC_ADVICE
            )
        if self._slip.counters.good:
            return self._of_frames(What.SLIP, self._slip, "SLIP frames", "no message", _SLIP_ADVICE)
        if self._raw.message_bytes >= _RAW_SHARE_MIN * total:
            name = "MQTT-SN without framing (raw)"
            return self._of_frames(What.RAW, self._raw, name, "no message", _RAW_ADVICE)
        return None

    def _of_frames(
        self, what: What, decoder: _Decoder, name: str, fault: str, advice: str
    ) -> LineContent:
        counters = decoder.counters
        bad = counters.bad_check + counters.too_long + counters.aborted
        bad_share = bad / (bad + counters.good)
        nodes = len(decoder.nodes)
        text = f"{name}, {_counted(nodes)}, {_percent(bad_share)} {fault}"
        if decoder.text.lines:
            text += f"; between them text: looks like {decoder.text.kind().looks_like}"
        restarts = decoder.text.restarts()
        if restarts is not None:
            text += f"; {restarts}"
        lines = tuple(decoder.text.lines)
        return LineContent(
            what=what,
            text=text,
            advice=advice,
            nodes=nodes,
            messages=counters.good,
            bad_share=bad_share,
            lines=lines,
        )

    def _foreign(self) -> LineContent | None:
        if not self._hdlc.counters.not_messages:
            return None
        return LineContent(
            What.OTHER_FRAMES,
            "RFC 1662 frames with a right FCS, but no MQTT-SN in them: PPP, probably",
            "this is not the port of a sensor, or its program has another protocol",
        )

    def _printed(self) -> LineContent | None:
        total = self._bytes.total()
        if sum(self._bytes[byte] for byte in ASCII_TEXT) < _TEXT_SHARE_MIN * total:
            return None
        kind, restarts = self._text.kind(), self._text.restarts()
        text, advice = f"text: looks like {kind.looks_like}", kind.advice
        if kind is BOOT_ROM:
            text = f"{kind.looks_like} at {self._baud} baud"
        if restarts is not None:
            text += f"; {restarts}"
            advice = "its program crashes at once, or its supply is too weak (a short, thick cable)"
        return LineContent(What.TEXT, text, advice, lines=tuple(self._text.lines))

    def _marked(self) -> LineContent | None:
        for mark, text, advice in _OTHER_FRAMES:
            marks = self._bytes[mark]
            if marks >= _MARKS_MIN and marks >= _MARK_SHARE_MIN * self._bytes.total():
                return LineContent(What.OTHER_FRAMES, text, advice)
        return None

    def _noise(self) -> LineContent:
        if self._bytes[0] >= _ZERO_SHARE_MIN * self._bytes.total():
            text = "zeros only: the line is held low, or this baud rate is far too high"
            return LineContent(
                What.NOISE, text, "see whether the board is powered and TX is on our RX"
            )
        others = ", ".join(str(baud) for baud in _USUAL_BAUDS if baud != self._baud)
        return LineContent(
            What.NOISE,
            f"noise at {self._baud} baud: probably another baud rate",
            f"try --baud with one of {others}; if none fits, see whether both sides share a ground",
        )


class _Decoder:
    """What came, decoded with one framing."""

    def __init__(self, framing_with: Callable[[OnLine], DelimitedFraming | RawFraming]) -> None:
        self.text = TextLines()
        self.framing = framing_with(self.text.add_line)
        self.counters = self.framing.counters
        self.nodes: set[bytes] = set()
        self.message_bytes = 0

    def feed(self, chunk: bytes, now: float) -> None:
        for message in self.framing.feed(chunk, now):
            self.message_bytes += len(message)
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


def _nothing(listened_s: float) -> LineContent:
    return LineContent(
        What.NOTHING,
        f"nothing in {listened_s:.0f} s",
        "see whether the board is powered and its TX is on our RX; a sensor that sleeps is silent "
        "for minutes: listen longer, or press the board's reset button meanwhile",
    )
