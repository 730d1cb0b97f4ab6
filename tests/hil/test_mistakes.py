"""What is wrong in a bench or a scenario is told with its line, all at once, and what is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.boards import inventory
from hil.scenarios import scenario
from hil.scenarios.mistakes import MistakesError

BOARD = '[[board]]\nid = "one"\nkind = "wasi"\n'
CALM = 'title = "Calm"\n'


def told_of_bench(folder: Path, text: str) -> list[str]:
    path = folder / "bench.toml"
    path.write_text(text)
    with pytest.raises(MistakesError) as caught:
        inventory.read(path)
    return [line.removeprefix(str(path)) for line in str(caught.value).splitlines()]


def told_of_scenario(folder: Path, text: str) -> list[str]:
    path = folder / "mine.toml"
    path.write_text(text)
    with pytest.raises(MistakesError) as caught:
        scenario.read(path)
    return [line.removeprefix(str(path)) for line in str(caught.value).splitlines()]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: no [[board]]: at least one is needed"),
        ("[[board]\n", ":1: Expected ']]' at the end of an array declaration"),
        (BOARD + 'colour = "red"\n', ":4: colour: unknown here; known: "),
        (BOARD + 'transprt = "udp"\n', ":4: transprt: unknown here; did you mean transport?"),
        ('[[board]]\nkind = "wasi"\n', ":1: id: is missing: a text"),
        (
            '[[board]]\nid = "A b"\nkind = "wasi"\n',
            ":2: id: expected small letters, digits and hyphens, at most 19",
        ),
        (BOARD + BOARD, ":5: id: one is another board already"),
        (
            '[[board]]\nid = "one"\nkind = "wasy"\n',
            ":3: kind: expected one of esp32, microbit, python, qemu-microbit, rp2, unix, wasi, "
            "got 'wasy'; did you mean wasi?",
        ),
        (
            '[[board]]\nid = "one"\nkind = "qemu-microbit"\ntransport = "udp"\n',
            ":4: transport: expected one of serial, got 'udp'",
        ),
        (BOARD + "baud = 1\n", ":4: baud: expected 1200 to 921600, got 1"),
        (BOARD + 'baud = "fast"\n', ":4: baud: expected a whole number, got 'fast'"),
        (BOARD + "uart = true\n", ":4: uart: expected a whole number, got True"),
        (BOARD + 'lacks = ["wings"]\n', ":4: lacks: no 'wings'; there are udp, serial, "),
        ('[[board]]\nid = "one"\nkind = "esp32"\n', ":1: port: is missing: a text"),
        (
            '[[board]]\nid = "one"\nkind = "esp32"\nport = "p"\npower = "uhubctl"\n',
            ":1: hub: is missing: a text",
        ),
        (
            '[[board]]\nid = "one"\nkind = "esp32"\nport = "p"\npower = "command"\n'
            'power_off = "relay \'off"\npower_on = "relay on"\n',
            ":6: power_off: no command: No closing quotation",
        ),
        (
            '[[board]]\nid = "one"\nkind = "esp32"\nport = "p"\ntransport = "serial"\n',
            ":1: line: is missing: a text",
        ),
    ],
)
def test_a_mistake_in_a_bench_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert told_of_bench(tmp_path, text)[0].startswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ":1: title: is missing: a text"),
        (CALM + "readings = 0\n", ":2: readings: expected 1 to 100000, got 0"),
        (CALM + 'needs = ["usb"]\n', ":2: needs: no 'usb'; there are udp, "),
        (CALM + '\n[[event]]\ndo = "gateway.kil"\n', ":4: do: expected one of air.down, "),
        (
            CALM + '\n[[event]]\ndo = "clock.jump"\nat_s = 1\n',
            ":3: seconds: clock.jump needs it",
        ),
        (
            CALM + '\n[[event]]\ndo = "gateway.kill"\nshare = 0.5\n',
            ":5: share: gateway.kill has no such thing; it has for_s",
        ),
        (
            CALM + '\n[[event]]\ndo = "gateway.kill"\nat_s = 1\nat_reading = 2\n',
            ":5: at_s: at_reading is there already; an event begins once",
        ),
        (
            CALM + '\n[[event]]\ndo = "gateway.kill"\nlater_s = 1\n',
            ":5: later_s: is later than a reading: at_reading says which",
        ),
        (CALM + "\n[air.udp]\nloss = 2\n", ":4: loss: expected 0 to 1, got 2"),
        (
            CALM + '\n[[event]]\ndo = "air.weather"\nfor_s = 1\nudp = {los = 0.1}\n',
            ":6: los: unknown here; did you mean loss?",
        ),
        (CALM + '\n[expect]\nlost = "some"\n', ":4: lost: expected one of any, got 'some'"),
        (CALM + "\n[expect]\nlosst = 1\n", ":4: losst: unknown here; did you mean lost?"),
        (
            CALM + '[[event]]\ndo = "disk.full"\nfor_s = 1\n',
            ":3: do: disk.full needs a disk of its own: disk_mib in [gateway]",
        ),
        (CALM + '[[event]]\ndo = "air.down"\n' * 101, ":202: 101 events, at most 100"),
        (CALM + "event = 3\n", ":2: event: expected tables, each as [[event]], got 3"),
    ],
)
def test_a_mistake_in_a_scenario_is_told_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told_of_scenario(tmp_path, text)[0].startswith(told)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = 'titel = "x"\nreadings = -1\n\n[[event]]\ndo = "nothing"\n'
    told = [line.split(": ")[:2] for line in told_of_scenario(tmp_path, text)]
    assert told == [[":1", "title"], [":1", "titel"], [":2", "readings"], [":5", "do"]]


def test_a_file_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(MistakesError, match=r"absent\.toml: No such file or directory"):
        inventory.read(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    with pytest.raises(MistakesError, match="it is not UTF-8"):
        inventory.read(tmp_path / "latin.toml")
