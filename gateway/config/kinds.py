"""The kinds of value a key can take: what is accepted, how it is described, how it is written back.

`read` takes a value as TOML has it. Variables and the command line have text only: `from_text`
makes of it what TOML would have had, or leaves the text, and `read` then says what was expected.
`written` is the other direction: the value as a TOML literal that reads back as the same value.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from gateway.config.settings import KIB, MIB
from gateway.config.spelling import quoted, shown
from gateway.config.topic_filters import is_filter

GIB = 1024 * MIB
TEXT_BYTES_MAX = 65_535  # the longest text that MQTT can carry

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SIZE = re.compile(r"([0-9]{1,20}) ?(B|KiB|MiB|GiB)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BASE64 = r"[A-Za-z0-9+/]"
# As `tidegate password` writes them (gateway/admin/http/passwords.py). The cost is bounded: who
# changes the file cannot make a gateway of 512 MiB take it all for one password.
_HASHES = {
    "scrypt": re.compile(rf"\$scrypt\$ln=1[0-7],r=8,p=[1-8]\${_BASE64}{{22}}\${_BASE64}{{32}}"),
    "sha256": re.compile(rf"\$sha256\${_BASE64}{{43}}"),
}
_SIZE_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}


class MismatchError(ValueError):
    """The value does not fit; says what would, and shows the value unless it may hold a secret."""

    def __init__(self, expected: str, raw: object, hint: str = "") -> None:
        super().__init__(f"expected {expected}, got {shown(raw)}{hint}")
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """`name` and `range` are the words of docs/configuration.md, `expected` those of a message."""

    @property
    def name(self) -> str:
        return "text"

    @property
    def range(self) -> str:
        return ""

    @property
    def expected(self) -> str:
        return f"{self.name}, {self.range}" if self.range else self.name

    @abstractmethod
    def read(self, raw: object) -> object:
        """The value, or a MismatchError."""

    def from_text(self, text: str) -> object:
        return text

    def written(self, value: object) -> str | None:
        """Nothing for what is not set and has no way to say so."""
        return None if value is None else self._literal(value)

    def _literal(self, value: object) -> str:
        return quoted(str(value))


@dataclass(frozen=True, slots=True)
class Boolean(Kind):
    @property
    def name(self) -> str:
        return "true or false"

    def read(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise MismatchError(self.expected, raw, _quotes_hint(self, raw))
        return raw

    def from_text(self, text: str) -> object:
        return {"true": True, "false": False}.get(text, text)

    def _literal(self, value: object) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    least: int
    most: int

    @property
    def name(self) -> str:
        return "whole number"

    @property
    def range(self) -> str:
        return f"{self.least} to {self.most}"

    @property
    def expected(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def read(self, raw: object) -> int:
        # To Python, true is a number.
        if isinstance(raw, bool) or not isinstance(raw, int) or not self.least <= raw <= self.most:
            raise MismatchError(self.expected, raw, _quotes_hint(self, raw))
        return raw

    def from_text(self, text: str) -> object:
        return int(text) if _WHOLE.fullmatch(text) else text

    def _literal(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Number(Kind):
    least: float
    most: float

    @property
    def name(self) -> str:
        return "number"

    @property
    def range(self) -> str:
        return f"{self._literal(self.least)} to {self._literal(self.most)}"

    @property
    def expected(self) -> str:
        return f"a number from {self.range}"

    def read(self, raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise MismatchError(self.expected, raw, _quotes_hint(self, raw))
        # Compared before it becomes a float: an integer can be too large for one. NaN fails too.
        if not self.least <= raw <= self.most:
            raise MismatchError(self.expected, raw)
        return float(raw)

    def from_text(self, text: str) -> object:
        return float(text) if _DECIMAL.fullmatch(text) else text

    def _literal(self, value: object) -> str:
        return str(value).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Size(Kind):
    """Bytes, as a number or as text with a unit: 65536, "64KiB", "512 MiB"."""

    least: int
    most: int

    @property
    def name(self) -> str:
        return "size"

    @property
    def range(self) -> str:
        return f"{with_unit(self.least)} to {with_unit(self.most)}"

    @property
    def expected(self) -> str:
        return f'a size from {self.range}, such as 65536, "64KiB" or "16MiB"'

    def read(self, raw: object) -> int:
        size = self._octets(raw)
        if size is None or not self.least <= size <= self.most:
            raise MismatchError(self.expected, raw)
        return size

    def _octets(self, raw: object) -> int | None:
        if isinstance(raw, str) and (size := _SIZE.fullmatch(raw)):
            return int(size[1]) * _SIZE_UNITS[size[2]]
        return raw if isinstance(raw, int) and not isinstance(raw, bool) else None

    def from_text(self, text: str) -> object:
        return int(text) if _WHOLE.fullmatch(text) else text

    def _literal(self, value: object) -> str:
        assert isinstance(value, int)
        text = with_unit(value)
        return quoted(text) if text.endswith("B") else text


def _quotes_hint(kind: Kind, raw: object) -> str:
    """For a number in quotes, which is text."""
    is_text = isinstance(raw, str) and kind.from_text(raw) != raw
    return ": write it without quotes" if is_text else ""


def with_unit(bytes_: int) -> str:
    for unit, size in _SIZE_UNITS.items():
        if size > 1 and bytes_ and bytes_ % size == 0:
            return f"{bytes_ // size}{unit}"
    return str(bytes_)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return "one word"

    @property
    def range(self) -> str:
        return ", ".join(map(quoted, self.words))

    @property
    def expected(self) -> str:
        *others, last = map(quoted, self.words)
        return f"{', '.join(others)} or {last}" if others else last

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.words:
            raise MismatchError(self.expected, raw)
        return raw


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text without control characters; lengths in bytes of UTF-8 unless `characters` is set."""

    least: int
    most: int
    forbidden: str = ""
    characters: bool = False

    @property
    def range(self) -> str:
        unit = "characters" if self.characters else "bytes"
        forbidden = f"{' '.join(self.forbidden)} or " if self.forbidden else ""
        return f"{self.least} to {self.most} {unit} without {forbidden}control characters"

    @property
    def expected(self) -> str:
        return f"text of {self.range}"

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or not self._fits(raw):
            raise MismatchError(self.expected, raw)
        return raw

    def _fits(self, text: str) -> bool:
        if any(letter in self.forbidden or is_control(letter) for letter in text):
            return False
        try:
            size = len(text.encode())
        except UnicodeEncodeError:  # variables may hold bytes that are not UTF-8
            return False
        return self.least <= (len(text) if self.characters else size) <= self.most


@dataclass(frozen=True, slots=True)
class Several(Kind):
    """A list of so many at most."""

    count_max: int

    @property
    def name(self) -> str:
        return "list"

    def read(self, raw: object) -> tuple[object, ...]:
        if not isinstance(raw, list) or len(raw) > self.count_max:
            raise MismatchError(self.expected, raw)
        return tuple(self.read_one(each) for each in raw)

    @abstractmethod
    def read_one(self, raw: object) -> object:
        """One of them, or a MismatchError."""

    def from_text(self, text: str) -> object:
        """With commas between them: brackets need quotes in a shell. Those are taken as well."""
        parts = [each.strip() for each in text.strip("[] ").split(",")]
        return [_unquoted(each) for each in parts if each]

    def _literal(self, value: object) -> str:
        assert isinstance(value, tuple)
        return f"[{', '.join(quoted(str(each)) for each in value)}]"


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text


@dataclass(frozen=True, slots=True)
class Texts(Several):
    """Several texts of one kind."""

    each: Text

    @property
    def range(self) -> str:
        return f"up to {self.count_max} texts, each of {self.each.range}"

    @property
    def expected(self) -> str:
        return f'a list of {self.range}, such as ["one", "two"]'

    def read_one(self, raw: object) -> str:
        return self.each.read(raw)


def is_control(letter: str) -> bool:
    """C0, DEL and C1, which MQTT 5 (1.5.4) advises against and terminals obey."""
    return letter < " " or "\x7f" <= letter < "\xa0"


@dataclass(frozen=True, slots=True)
class Words(Several):
    """Several of a few words, each once."""

    each: Choice

    @property
    def range(self) -> str:
        return f"of {self.each.range}"

    @property
    def expected(self) -> str:
        return f"a list of {self.each.expected}"

    def read_one(self, raw: object) -> str:
        return self.each.read(raw)


@dataclass(frozen=True, slots=True)
class FilePath(Kind):
    @property
    def name(self) -> str:
        return "path"

    @property
    def expected(self) -> str:
        return 'a path without control characters and without "~" at its beginning'

    def read(self, raw: object) -> Path:
        if not isinstance(raw, str) or not raw or raw.startswith("~"):
            raise MismatchError(self.expected, raw)
        if any(map(is_control, raw)):
            raise MismatchError(self.expected, raw)
        if _URL_SCHEME.match(raw):  # it would become a folder that is called "s3:"
            raise MismatchError("a path of this machine, not a URL", raw)
        return Path(raw)


@dataclass(frozen=True, slots=True)
class SocketPath(Kind):
    """`auto`, a path, or nothing."""

    @property
    def name(self) -> str:
        return "path"

    @property
    def range(self) -> str:
        return '"auto" for the usual one, "" for none'

    @property
    def expected(self) -> str:
        return 'a path from / on, "auto" for the usual one or "" for none'

    def read(self, raw: object) -> str:
        if raw in ("", "auto"):
            return str(raw)
        if not isinstance(raw, str) or not raw.startswith("/") or any(map(is_control, raw)):
            raise MismatchError(self.expected, raw)
        return raw


@dataclass(frozen=True, slots=True)
class HashedSecret(Kind):
    """A password or token as it is stored. What stands there instead may be the secret itself, so
    it is never shown.
    """

    scheme: str  # "scrypt" or "sha256"

    @property
    def name(self) -> str:
        return "hash"

    @property
    def range(self) -> str:
        return f"${self.scheme}$, as `tidegate password` writes it"

    @property
    def expected(self) -> str:
        option = " --token NAME" if self.scheme == "sha256" else ""
        return f"a hash, ${self.scheme}$..., as `tidegate password{option}` prints it"

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or _HASHES[self.scheme].fullmatch(raw) is None:
            raise MismatchError(self.expected, _Hidden())
        return raw


class _Hidden:
    def __str__(self) -> str:
        return "something else"


@dataclass(frozen=True, slots=True)
class Fingerprint(Text):
    """SHA-256 of a certificate; 64 lower case digits, however it was written."""

    @property
    def range(self) -> str:
        return "64 hexadecimal digits, with or without colons"

    @property
    def expected(self) -> str:
        return f"a SHA-256 fingerprint of {self.range}"

    def read(self, raw: object) -> str:
        plain = raw.replace(":", "").lower() if isinstance(raw, str) else ""
        if _SHA256.fullmatch(plain) is None:
            raise MismatchError(self.expected, raw)
        return plain


@dataclass(frozen=True, slots=True)
class TopicFilter(Kind):
    bytes_max: int

    @property
    def name(self) -> str:
        return "topic filter"

    @property
    def range(self) -> str:
        return f"1 to {self.bytes_max} bytes, + and # alone in a level, # only in the last"

    @property
    def expected(self) -> str:
        return 'a topic filter such as "sensors/+/door" or "alarm/#"'

    def read(self, raw: object) -> str:
        text = Text(1, self.bytes_max).read(raw) if isinstance(raw, str) else None
        if text is None or not is_filter(text):
            raise MismatchError(self.expected, raw)
        return text


@dataclass(frozen=True, slots=True)
class TopicFilters(Several):
    each: TopicFilter

    @property
    def range(self) -> str:
        return f"up to {self.count_max} topic filters, each of {self.each.range}"

    @property
    def expected(self) -> str:
        return 'a list of topic filters such as ["sensors/+/door", "alarm/#"]'

    def read_one(self, raw: object) -> str:
        return self.each.read(raw)


# Of Home Assistant. Its classes are in home_assistant_classes.py, which a start does without.

_ICON = re.compile(r"[a-z][a-z0-9_]{0,31}:[a-z0-9][a-z0-9-]{0,63}")
_COMMAND_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class DeviceClass(Text):
    """One of many words, so they are not all listed."""

    @property
    def name(self) -> str:
        return "one word"

    @property
    def range(self) -> str:
        return "those of Home Assistant"

    @property
    def expected(self) -> str:
        return 'a device class of Home Assistant, such as "temperature" or "door"'

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self._known():
            raise MismatchError(self.expected, raw)
        return raw

    def _known(self) -> tuple[str, ...]:
        from gateway.config.home_assistant_classes import BINARY_CLASSES, SENSOR_CLASSES

        return (*SENSOR_CLASSES, *BINARY_CLASSES)


@dataclass(frozen=True, slots=True)
class CommandClass(DeviceClass):
    @property
    def expected(self) -> str:
        return 'a device class of Home Assistant, such as "duration", "outlet" or "restart"'

    def _known(self) -> tuple[str, ...]:
        from gateway.config.home_assistant_classes import (
            BUTTON_CLASSES,
            NUMBER_CLASSES,
            SWITCH_CLASSES,
        )

        return (*NUMBER_CLASSES, *SWITCH_CLASSES, *BUTTON_CLASSES)


@dataclass(frozen=True, slots=True)
class CommandName(Text):
    """It becomes part of an id."""

    @property
    def range(self) -> str:
        return "1 to 64 letters, digits, _ and -"

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or _COMMAND_NAME.fullmatch(raw) is None:
            raise MismatchError(self.expected, raw)
        return raw


@dataclass(frozen=True, slots=True)
class Icon(Text):
    """As Home Assistant names them."""

    @property
    def range(self) -> str:
        return "mdi: and the name of an icon"

    @property
    def expected(self) -> str:
        return 'the name of an icon, such as "mdi:water-pump"'

    def read(self, raw: object) -> str:
        if not isinstance(raw, str) or _ICON.fullmatch(raw) is None:
            raise MismatchError(self.expected, raw)
        return raw
