"""RFC 2217, the client's side: a serial port on the network, and its settings in the same stream.

Telnet (RFC 854) with the option COM-PORT: settings go as subnegotiations, data between them with
each byte FF doubled. Pure: bytes in, bytes out.

- All settings are sent at once when the server agrees to the option; the port is `is_ready` when it
  has confirmed each of them. One that it confirms with another value, or an option that it refuses,
  is a `refusal`, as a text.
- The server may ask for silence (FLOWCONTROL-SUSPEND); then `is_suspended`.
- DTR and RTS are left as the server has them: a change of them resets many boards.

Limits: a subnegotiation of SUBNEGOTIATION_OCTETS_MAX, after which the rest of it is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SUBNEGOTIATION_BYTES_MAX = 1024  # a signature may be some lines of text

IAC, DONT, DO, WONT, WILL, SB, SE = 0xFF, 0xFE, 0xFD, 0xFC, 0xFB, 0xFA, 0xF0
BINARY, ECHO, SUPPRESS_GO_AHEAD, COM_PORT = 0, 1, 3, 44

SET_BAUDRATE, SET_DATASIZE, SET_PARITY, SET_STOPSIZE, SET_CONTROL = 1, 2, 3, 4, 5
FLOWCONTROL_SUSPEND, FLOWCONTROL_RESUME = 8, 9
PURGE_DATA = 12
_FROM_SERVER = 100  # its answer has the number of the command and this

PARITIES = {"none": 1, "odd": 2, "even": 3}
_NO_FLOW_CONTROL, _RTS_CTS = 1, 3
_PURGE_BOTH = 3

# What we do ourselves, and what the server may; the rest is declined.
_WE_MAY = frozenset({BINARY, SUPPRESS_GO_AHEAD, COM_PORT})
_SERVER_MAY = frozenset({BINARY, ECHO, SUPPRESS_GO_AHEAD, COM_PORT})
_NAMES = {
    SET_BAUDRATE: "baud",
    SET_DATASIZE: "bits a byte",
    SET_PARITY: "parity",
    SET_STOPSIZE: "stop bits",
}


@dataclass(frozen=True, slots=True)
class PortSettings:
    baud: int
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: int = 1
    rtscts: bool = False


class ComPort:
    def __init__(self, settings: PortSettings) -> None:
        self.is_suspended = False
        self.refusal: str | None = None
        self._commands = {
            SET_BAUDRATE: settings.baud.to_bytes(4, "big"),
            SET_DATASIZE: bytes((8,)),
            SET_PARITY: bytes((PARITIES[settings.parity],)),
            SET_STOPSIZE: bytes((settings.stop_bits,)),
        }
        self._flow_control = _RTS_CTS if settings.rtscts else _NO_FLOW_CONTROL
        self._unconfirmed = set(self._commands)
        self._is_agreed = False
        self._offered = {BINARY, SUPPRESS_GO_AHEAD, COM_PORT}  # and not answered yet
        self._requested = {BINARY, SUPPRESS_GO_AHEAD}
        self._rest = b""  # of a command whose end is not there yet
        self._inside: bytearray | None = None  # of a subnegotiation

    @property
    def is_ready(self) -> bool:
        return not self._unconfirmed

    def begin(self) -> bytes:
        """What goes first."""
        offers = (bytes((IAC, WILL, option)) for option in sorted(self._offered, reverse=True))
        requests = (bytes((IAC, DO, option)) for option in sorted(self._requested))
        return b"".join((*offers, *requests))

    @staticmethod
    def wrap(chunk: bytes) -> bytes:
        return chunk.replace(b"\xff", b"\xff\xff")

    def receive(self, chunk: bytes) -> tuple[bytes, bytes]:
        """The data among what the server sent, and what is to be answered."""
        if not self._rest and self._inside is None and IAC not in chunk:
            return chunk, b""
        stream = self._rest + chunk
        data, answers = bytearray(), bytearray()
        at = 0
        while at < len(stream):
            mark = stream.find(b"\xff", at)
            until = len(stream) if mark < 0 else mark
            self._take(stream[at:until], data)
            at = until
            if mark < 0:
                break
            length = _command_length(stream, mark)
            if mark + length > len(stream):
                break
            self._on_command(stream[mark : mark + length], data, answers)
            at = mark + length
        self._rest = stream[at:]
        return bytes(data), bytes(answers)

    def _take(self, chunk: bytes, data: bytearray) -> None:
        if self._inside is None:
            data += chunk
        elif len(self._inside) < SUBNEGOTIATION_BYTES_MAX:
            self._inside += chunk

    def _on_command(self, command: bytes, data: bytearray, answers: bytearray) -> None:
        match command[1]:
            case 0xFF:
                self._take(b"\xff", data)
            case 0xFA:
                self._inside = bytearray()
            case 0xF0:
                inside, self._inside = self._inside or b"", None
                self._on_subnegotiation(bytes(inside))
            case 0xFB | 0xFC | 0xFD | 0xFE:
                answers += self._negotiate(command[1], command[2])
            case _:  # such as NOP, which keeps the connection alive
                pass

    def _negotiate(self, verb: int, option: int) -> bytes:
        """Answers what changes something, and never an answer (RFC 854)."""
        if verb in (DO, DONT):
            return self._on_request(verb, option)
        if option in self._requested:
            self._requested.discard(option)
            return b""
        if verb == WONT:
            return b""
        return bytes((IAC, DO if option in _SERVER_MAY else DONT, option))

    def _on_request(self, verb: int, option: int) -> bytes:
        is_answer = option in self._offered
        self._offered.discard(option)
        answer = b""
        if verb == DO and not is_answer:
            answer = bytes((IAC, WILL if option in _WE_MAY else WONT, option))
        if option != COM_PORT:
            return answer
        if verb == DONT:
            self.refusal = (
                "it does not speak RFC 2217: use socket://, or set the server to RFC 2217"
            )
            return answer
        if self._is_agreed:
            return b""
        self._is_agreed = True
        return answer + self._settings()

    def _settings(self) -> bytes:
        commands = [*self._commands.items(), (SET_CONTROL, bytes((self._flow_control,)))]
        commands.append((PURGE_DATA, bytes((_PURGE_BOTH,))))
        return b"".join(
            bytes((IAC, SB, COM_PORT, command)) + self.wrap(value) + bytes((IAC, SE))
            for command, value in commands
        )

    def _on_subnegotiation(self, inside: bytes) -> None:
        """A subnegotiation, without its frame."""
        if len(inside) < 2 or inside[0] != COM_PORT:
            return
        command, value = inside[1] - _FROM_SERVER, inside[2:]
        if command in (FLOWCONTROL_SUSPEND, FLOWCONTROL_RESUME):
            self.is_suspended = command == FLOWCONTROL_SUSPEND
        wanted = self._commands.get(command)
        if wanted is None:
            return
        self._unconfirmed.discard(command)
        if value != wanted:
            has, requested = _shown(command, value), _shown(command, wanted)
            self.refusal = f"it has set {_NAMES[command]} to {has} instead of {requested}"


def _shown(command: int, value: bytes) -> str:
    number = int.from_bytes(value[:4], "big")
    names = {number: name for name, number in PARITIES.items()} if command == SET_PARITY else {}
    return names.get(number, str(number))


def _command_length(stream: bytes, mark: int) -> int:
    return 3 if stream[mark + 1 : mark + 2] in (b"\xfb", b"\xfc", b"\xfd", b"\xfe") else 2
