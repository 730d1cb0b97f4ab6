"""The Really Small Message Broker: its broker.cfg, as far as it is about MQTT-SN.

Words in each line, the first says what it is about, `#` first makes a comment. `listener` and
`connection` begin sections. It is a broker itself, of MQTT 3.1, and Tidegate needs one beside it:
that to which a `connection` bridges, or else one that is to be set up.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from gateway.cli.importing.draft import Draft, Source
from gateway.cli.importing.files import Imported, NotReadError, text_beside, text_of
from gateway.config.spelling import shortened

MQTT_SN = "mqtts"
ANY_ADDRESS = "INADDR_ANY"
SHOWN_MAX = 60
_OF_THE_BROKER = "of the broker, which is another program now"
_NOT_TAKEN = {
    **dict.fromkeys(("password_file", "acl_file", "allow_anonymous"), _OF_THE_BROKER),
    **dict.fromkeys(
        ("persistence", "retained_persistence", "persistence_location"), _OF_THE_BROKER
    ),
    **dict.fromkeys(("autosave_interval", "autosave_on_changes"), _OF_THE_BROKER),
    **dict.fromkeys(("port", "bind_address", "max_connections", "ipv6"), _OF_THE_BROKER),
    **dict.fromkeys(("log_level", "trace_level", "trace_output"), "see log.level"),
    **dict.fromkeys(("max_log_entries", "max_trace_entries", "ffdc_output"), "see log.level"),
    "connection_messages": "at log.level info they are always said",
    "clientid_prefixes": "admission.listed has whole ids",
    "max_inflight_messages": "MQTT-SN has one at a time",
    "max_mqtts_packet_size": "see limits.payload_bytes_max",
}


@dataclass(frozen=True, slots=True)
class Line:
    word: str
    values: tuple[str, ...]
    source: Source


@dataclass(slots=True)
class Section:
    """`head` None: what stands before the first listener or connection."""

    head: Line | None
    lines: list[Line] = field(default_factory=list)


def import_rsmb(path: Path) -> Imported:
    """Raises NotReadError for this file; one that it names and that is not there is a note."""
    conversion = _Conversion(path)
    conversion.convert(text_of(path))
    return Imported(conversion.draft, conversion.password)


class _Conversion:
    def __init__(self, path: Path) -> None:
        self.draft = Draft(path.name)
        self.password: str | None = None
        self._path = path
        self._listeners = 0
        self._has_broker = False

    def convert(self, text: str) -> None:
        for section in self._sections(text):
            match section.head:
                case None:
                    for line in section.lines:
                        self._broker_wide(line)
                case Line(word="listener"):
                    self._listener(section.head, section.lines)
                case _:
                    self._connection(section.head, section.lines)
        file = Source(self._path.name)
        if not self._listeners:
            self.draft.fault(file, f"there is no listener of MQTT-SN ({MQTT_SN})")
        if not self._has_broker:
            text = "no connection to a broker: set upstream.url, or run one on this machine"
            self.draft.leave(file, text)

    def _sections(self, text: str) -> list[Section]:
        sections = [Section(None)]
        for number, line in enumerate(text.splitlines(), 1):
            words = _words(line)
            if not words or words[0].startswith("#"):
                continue
            source = Source(self._path.name, number)
            read = Line(words[0], tuple(words[1:]), source)
            if not read.values:
                self.draft.fault(source, f"{read.word[:SHOWN_MAX]}: there is no value")
            elif read.word in ("listener", "connection"):
                sections.append(Section(read))
            else:
                sections[-1].lines.append(read)
        return sections

    def _broker_wide(self, line: Line) -> None:
        match line.word:
            case "predefined_topics_file":
                self._topics(line)
            case "max_queued_messages":
                self._number(("limits", "outbox_messages_max"), line)
            case "retry_interval":
                self._number(("mqtt_sn", "retry_after_s"), line)
            case _:
                self._leave(line)

    def _listener(self, head: Line, lines: list[Line]) -> None:
        port, *rest = head.values
        if rest[1:2] != [MQTT_SN]:
            self.draft.leave(head.source, f"listener {port[:SHOWN_MAX]}: {_OF_THE_BROKER}")
            return
        options = {line.word: line for line in lines}
        is_ipv6 = "ipv6" in options and options["ipv6"].values[0] == "true"
        anywhere = "::" if is_ipv6 else "0.0.0.0"
        address = anywhere if rest[0] == ANY_ADDRESS else rest[0]
        entry, self._listeners = ("udp", self._listeners), self._listeners + 1
        listen = f"{_host(address)}:{port}"
        if not self.draft.put((*entry, "listen"), listen, head.source, head.word):
            self.draft.put((*entry, "listen"), f"{anywhere}:0", head.source, head.word)
        for line in lines:
            self._option(entry, port, line)

    def _option(self, entry: tuple[str | int, ...], port: str, line: Line) -> None:
        value = line.values[0]
        match line.word:
            case "ipv6":
                pass
            case "multicast_groups":
                self._group(entry, f"{_host(value)}:{port}", line)
            case "advertise":
                self._group(entry, value, line)
                for place, path in ((1, ("discovery", "advertise_s")), (2, ("gateway", "id"))):
                    if len(line.values) > place:
                        self._number(path, line, place)
            case "mount_point" if not self.draft.has(("upstream", "topic_prefix")):
                self.draft.put(("upstream", "topic_prefix"), value, line.source, line.word)
            case "max_connections":
                if value.isdigit() and int(value) > 0:
                    self._number(("limits", "clients_max"), line)
            case _:
                self._leave(line)

    def _group(self, entry: tuple[str | int, ...], group: str, line: Line) -> None:
        path = (*entry, "multicast")
        if self.draft.has(path):
            self.draft.leave(line.source, f"{line.word}: a listener has one group")
        else:
            self.draft.put(path, group, line.source, line.word)
            for other in line.values[1:] if line.word == "multicast_groups" else ():
                self.draft.leave(line.source, f"{other[:SHOWN_MAX]}: a listener has one group")

    def _connection(self, head: Line, lines: list[Line]) -> None:
        protocols = [line.values[0] for line in lines if line.word == "protocol"]
        if self._has_broker or any(each != "mqtt" for each in protocols):
            name = head.values[0][:SHOWN_MAX]
            self.draft.leave(head.source, f"connection {name}: there is one, to one MQTT broker")
            return
        for line in lines:
            self._of_connection(line)
        # A name without a password is taken, and no password without a name.
        passwords = [line.values[0] for line in lines if line.word == "password"]
        if passwords and self.draft.has(("upstream", "username")):
            self.password = passwords[0]

    def _of_connection(self, line: Line) -> None:
        match line.word:
            case "address" | "addresses":
                self._address(line)
            case "username" | "clientid":
                key = "username" if line.word == "username" else "client_id"
                self.draft.put(("upstream", key), line.values[0], line.source, line.word)
            case "keepalive_interval":
                self._number(("upstream", "keep_alive_s"), line)
            case "topic":
                text = "topic: all topics are the broker's, and none is mapped to another"
                self.draft.leave(line.source, text)
            case "protocol" | "password":
                pass
            case _:
                self._leave(line)

    def _address(self, line: Line) -> None:
        host, _, port = line.values[0].partition(":")
        url = f"mqtt://{host}:{port or 1883}"
        self._has_broker |= self.draft.put(("upstream", "url"), url, line.source, line.word)
        if line.values[1:]:
            self.draft.leave(line.source, f"{line.word}: only the first broker is taken")

    def _topics(self, line: Line) -> None:
        try:
            file, text = text_beside(self._path, line.values[0], SHOWN_MAX)
        except NotReadError as error:
            self.draft.fault(line.source, f"predefined_topics_file: {error}")
            return
        ids: dict[int, str] = {}
        for number, one in enumerate(text.splitlines(), 1):
            word, _, topic = one.strip().partition(" ")
            source = Source(file, number)
            topic = topic.strip()
            if not word or word.startswith("#"):
                continue
            if word == "clientId":
                self.draft.leave(source, "clientId: it does nothing there; topics are those of all")
            elif not (word.isascii() and word.isdigit() and len(word) < 6 and topic):
                self.draft.fault(source, "expected ID TOPIC; the line was left out")
            elif int(word) in ids:
                before = shortened(ids[int(word)], SHOWN_MAX)
                self.draft.fault(source, f"id {word} is {before} already")
            elif self.draft.put(("predefined_topics", topic), int(word), source):
                ids[int(word)] = topic

    def _number(self, path: tuple[str | int, ...], line: Line, place: int = 0) -> None:
        self.draft.put_number(path, line.values[place], line.source, line.word)

    def _leave(self, line: Line) -> None:
        why = _NOT_TAKEN.get(line.word, "no equivalent")
        self.draft.leave(line.source, f"{line.word[:SHOWN_MAX]}: {why}")


def _words(line: str) -> list[str]:
    """Blanks part them, but for those between quotes."""
    if '"' not in line:
        return line.split()
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, '"', "", ""
    try:
        return list(lexer)
    except ValueError:  # a quote without its end: up to the end of the line
        return line.replace('"', " ").split()


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
