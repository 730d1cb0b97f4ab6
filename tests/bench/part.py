"""What the parts of the benchmark have in common: their options, and where their result goes."""

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hil.rig.mosquitto import BrokerError, find_mosquitto
from tests.bench import document, generator
from tests.bench.machine import Machine, this_machine
from tests.bench.measurement import MeasurementError
from tests.bench.table import Table, wrapped

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_UNAVAILABLE = 69
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Result:
    """What a part has found: tables with the plots that show them, and all figures."""

    tables: tuple[Table, ...]
    figures: Mapping[str, Any]
    # Drawings by the names of their files, and what each shows.
    plots: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    # What the document has, where that is less than all tables.
    summary: Table | None = None

    def as_markdown(self, machine: Machine, command: str) -> str:
        """One paragraph, with links to the plots, and one table."""
        table = self.summary or self.tables[0]
        links = [f"[{text}]({document.IMAGES}/{file})" for file, (text, _) in self.plots.items()]
        plots = [f"Drawn: {', '.join(links)}."] if links else []
        facts = [f"**{table.title}.**", machine.told_in_short(command), *self.remarks, *plots]
        return f"{wrapped(' '.join(facts))}\n\n{table.as_markdown()}"

    def as_text(self) -> str:
        return "\n\n".join([*(table.as_text() for table in self.tables), *self.remarks]) + "\n"


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    made.add_argument(
        "--quick", action="store_true", help="little of everything: to see that it works"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    made.add_argument(
        "--write-docs",
        action="store_true",
        help="write plots and a table into docs/performance.md and docs/images",
    )
    return made


def run(
    section: str,
    made: argparse.ArgumentParser,
    words: Sequence[str],
    measure: Callable[[argparse.Namespace], Result],
) -> int:
    """Measure, tell, and end with what came of it."""
    asked = made.parse_args(words)
    told_command = command(made.prog.split()[-1], words)
    # What was started is stopped, however this ends.
    signal.signal(signal.SIGTERM, interrupt)
    try:
        find_mosquitto()
        machine = this_machine()
        result = measure(asked)
        sys.stdout.write(result.as_text())
        if asked.json is not None:
            told = {"command": told_command, "machine": asdict(machine), **result.figures}
            asked.json.write_text(json.dumps(told, indent=1) + "\n")
        if asked.write_docs:
            drawings = {file: drawing for file, (_, drawing) in result.plots.items()}
            text = result.as_markdown(machine, told_command)
            document.write_section(text, section, plots=drawings)
    except (BrokerError, generator.BuildError) as error:
        say(str(error))
        return EXIT_UNAVAILABLE
    except (document.DocumentError, MeasurementError) as error:
        say(str(error))
        return EXIT_FAILURE
    except KeyboardInterrupt:
        say("interrupted; what was started is stopped")
        return EXIT_INTERRUPTED
    return EXIT_OK


def command(module: str, words: Sequence[str]) -> str:
    """As the document tells it: where somebody kept the figures is nobody else's."""
    told = [word for word in words if word != "--write-docs"]
    for at, word in reversed(list(enumerate(told))):
        if word == "--json":
            del told[at : at + 2]
        elif word.startswith("--json="):
            del told[at]
    return shlex.join(["python", "-m", module, *told])


def interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
