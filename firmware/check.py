"""What a node would refuse, by the node's own code: before its settings are written.

    python -m firmware.check FILE

FILE is JSON: `settings` and `secrets` as they are to lie on the board, and `board`: what is known
of its pins (`all`, `analog`, `input_only`: lists of numbers), and how many `uarts` it has. What is
not known is not refused. Each line of the output is one thing that is wrong; the exit code is then
1.

The drivers are started with doubles of a board and of the parts at its pins, and measure once. A
driver of the user's own (`drivers.rain`) is on the board only, and is not looked at.
"""

from __future__ import annotations

import difflib
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from firmware.app.given import FILE_ONLY, PATH, SECRETS_PATH, load_secrets, settings_of
from firmware.app.sensors.ds18b20 import crc8
from firmware.app.sensors.kinds import KINDS, made
from firmware.app.settings import RULES
from firmware.loader.files import Files

ADDRESS_MAX = 0x77  # of I2C, with seven bits; above and below some are reserved
BME280_ID, BME280_STATUS, BME280 = 0xD0, 0xF3, 0x60
PAD = b"\x91\x01\x4b\x46\x7f\xff\x0f\x10"  # of a DS18B20 at 25.0625 degrees
BAUD_MIN, BAUD_MAX = 50, 4_000_000


class Spec(dict[str, Any]):
    """Of a sensor; knows which of its keys the driver has asked for."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.asked = {"kind"}

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


class Board:
    """Raises ValueError for a pin that it does not have, or that cannot do what it is asked for."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._all = known.get("all")
        self._analog = known.get("analog")
        self._input_only = known.get("input_only") or []

    def chip_temperature(self) -> int:
        return 250

    def adc(self, pin: object) -> Any:
        self._check(pin)
        if self._analog is not None and pin not in self._analog:
            raise ValueError(f"pin {pin} cannot measure a voltage: {ranges(self._analog)} can")
        return lambda: 1_000_000

    def i2c(self, scl: object, sda: object) -> Any:
        self._check_output(scl)
        self._check_output(sda)
        if scl == sda:
            raise ValueError(f"scl and sda are both pin {scl}")
        return Bus()

    def one_wire(self, pin: object) -> Any:
        self._check_output(pin)
        return OneWire()

    def _check_output(self, pin: object) -> None:
        self._check(pin)
        if pin in self._input_only:
            raise ValueError(f"pin {pin} is for input only")

    def _check(self, pin: object) -> None:
        if isinstance(pin, bool) or not isinstance(pin, int):
            raise ValueError(f"a pin is a number, not {pin!r}")
        if self._all is not None and pin not in self._all:
            raise ValueError(f"this board has no pin {pin}; it has {ranges(self._all)}")


class Bus:
    """A BME280 at each address."""

    def readfrom_mem(self, address: object, register: int, size: int) -> bytes:
        if isinstance(address, bool) or not isinstance(address, int):
            raise ValueError(f"address: a number, not {address!r}")
        if not 0 < address <= ADDRESS_MAX:
            raise ValueError(f"address: 1 to {ADDRESS_MAX}, not {address}")
        if register == BME280_STATUS:
            return bytes(size)
        return bytes([BME280 if register == BME280_ID else 1] * size)

    def writeto_mem(self, address: int, register: int, data: bytes) -> None:
        pass


class OneWire:
    def reset(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        pass

    def readinto(self, pad: bytearray) -> None:
        pad[:] = PAD + bytes([crc8(bytearray(PAD))])


class BoardFiles(Files):
    """Of the board, as far as settings are read from them."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents

    def open(self, path: str, mode: str) -> io.BytesIO:
        if path not in self._contents:
            raise OSError(2, path)
        return io.BytesIO(self._contents[path])


def problems(
    given: Mapping[str, Any], secrets: Mapping[str, Any] | None, board: Mapping[str, Any]
) -> Iterator[str]:
    settings = settings_of(dict(given), {})
    files = {PATH: json.dumps(given).encode()}
    if secrets is not None:
        files[SECRETS_PATH] = json.dumps(secrets).encode()
    load_secrets(BoardFiles(files), settings, lambda: True)  # the board says so itself
    for problem in dict.fromkeys(settings.problems):
        name = problem.removeprefix("unknown: ")
        yield problem if name == problem else problem + did_you_mean(name, (*RULES, *FILE_ONLY))
    yield from _of_uart(settings.uart, board.get("uarts"))
    for spec in settings.sensors:
        yield from _of_sensor(spec, Board(board))


def _of_uart(uart: Mapping[str, Any] | None, count: int | None) -> Iterator[str]:
    if uart is None:
        return
    number, baud = uart["number"], uart.get("baud", 115_200)
    is_one = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    if not is_one or (count is not None and number >= count):
        most = "a number" if count is None else f"0 to {count - 1}"
        yield f"uart: {most}, not {number!r}"
    if isinstance(baud, bool) or not isinstance(baud, int) or not BAUD_MIN <= baud <= BAUD_MAX:
        yield f"uart: baud: {BAUD_MIN} to {BAUD_MAX}, not {baud!r}"


def _of_sensor(given: Any, board: Board) -> Iterator[str]:
    if not isinstance(given, dict) or not isinstance(given.get("kind"), str):
        yield 'sensors: each like {"kind": "internal"}'
        return
    kind, spec = given["kind"], Spec(given)
    if "." in kind and kind not in KINDS:
        return
    if kind not in KINDS:
        meant = did_you_mean(kind, KINDS) or f"; there are {', '.join(KINDS)}"
        yield f"no sensor {kind!r}{meant}"
        return
    missing, problem = _tried(spec, board)
    if problem is not None:
        yield f"{kind}: {problem}"
    # A driver that failed may not have asked for all of its keys yet.
    known = spec.asked - {"kind"} if problem is None else {missing}
    for key in given:
        meant = did_you_mean(key, known)
        if key not in spec.asked and (problem is None or meant):
            yield f"{kind}: unknown: {key}{meant}"


def _tried(spec: Spec, board: Board) -> tuple[str, str | None]:
    """The key that is missing, or "", and what is wrong, if anything."""
    try:
        sensor = made(spec, board)
        sensor.start()
        texts = [text for name, unit, _, _ in sensor.read() for text in (name, unit)]
    except KeyError as error:
        return str(error.args[0]), f"{error.args[0]} is missing"
    except (ValueError, OSError) as error:
        return "", str(error)
    except TypeError:
        wrong = [f"{key}={value!r}" for key, value in spec.items() if key != "kind"]
        return "", f"one of {', '.join(wrong)} is of a kind that it does not take"
    is_right = all(isinstance(text, str) for text in texts)
    return "", None if is_right else "name and unit are texts"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), 1, 0.6)
    return f", did you mean {near[0]}?" if near else ""


def ranges(numbers: Iterable[int]) -> str:
    """`0 to 5, 18 to 21`"""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(least) if least == most else f"{least} to {most}" for least, most in runs)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    given = json.loads(Path(sys.argv[1]).read_bytes())
    found = list(problems(given["settings"], given.get("secrets"), given.get("board") or {}))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
