"""Where each microsecond goes: the gateway's CPU time for a message, by its parts.

    python -m tests.bench.where [--quick] [--write-docs] [--json FILE]

Each row that has a goal for its CPU time or its wait runs as in the matrix, and again through a
gateway with clocks at the doors of its parts (timed_gateway.py), in turns. Both run the sources:
compiled modules call each other by no door. How much less these take is told beside it. Encoding is
timed by itself, in process, for the frames that were sent. How much of it all is the kernel's, the
kernel says.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gateway.frames import Frame, Puback, Pubcomp, Publish, Pubrec, encode
from gateway.host import compiled
from hil.rig.mosquitto import Mosquitto
from tests.bench import generator, part
from tests.bench.gateway_process import DEFAULT_COMMAND, GatewayProcess
from tests.bench.measurement import Measurement, MeasurementError
from tests.bench.running import Setting, at_broker, generated
from tests.bench.scenarios import MATRIX, Scenario
from tests.bench.table import Table, number
from tests.bench.timed_gateway import LOOP, PARTS, QUICK_ACK

SECONDS, REPEATS = 5.0, 3
QUICK_SECONDS = 1.0
ENCODE_ROUNDS, ENCODED = 20, 5000
OTHER, ENCODE = "other threads", "encode"
TIMED = (sys.executable, "-m", "tests.bench.timed_gateway")
REPORT = "parts.json"
# As `tidegate run` is without its compiled modules.
SOURCES = ("env", f"{compiled.VARIABLE}=no")

# What a sensor is sent for a message, by the rows that are taken apart, by the tables they are in.
SENT: Mapping[str, Mapping[str, tuple[Frame, ...]]] = {
    "CPU time of a reading that is acknowledged, by part": {
        "qos1-up-1": (Puback(1, 1, 0),),
        "qos1-up-100": (Puback(1, 1, 0),),
        "qos1-up-1000": (Puback(1, 1, 0),),
        "qos2-up-100": (Pubrec(1), Pubcomp(1)),
    },
    "CPU time of a reading at QoS 0, by part": {
        "qos0-up-100": (),
        "qos0-up-1000": (),
        "qos0-up-100-at-5000": (),
    },
    "CPU time of a delivery, by part": {
        "fan-out-100": (Publish(1, 0, bytes(64), 0),),
        "qos1-down-100": (Publish(1, 1, bytes(64), 1),),
        "qos1-down-1000": (Publish(1, 1, bytes(64), 1),),
    },
}
# What the document shows.
SUMMARY = ("qos1-up-100", "qos2-up-100", "qos0-up-100", "qos1-down-100")
SAID = {
    "recvmmsg": "kernel: `recvmmsg`, datagrams in",
    "sendmmsg": "kernel: `sendmmsg`, datagrams out",
    "datagrams in": "link: datagrams and addresses out of the slots",
    "datagrams out": "link: datagrams and addresses into the slots",
    "link": "link: turns, tick, counters, queue",
    "engine, sensors": "engine: what sensors say, to packets for the broker",
    "engine, broker": "engine: what the broker says, to frames for sensors",
    "engine, other": "engine: timers, what is durable",
    ENCODE: "frames: encoding",
    "shell": "shell: effects to where they belong, the alarm",
    "broker link": "broker link: packets joined, handed to the loop",
    QUICK_ACK: "kernel: `TCP_QUICKACK`",
    "journal": "journal: work handed over",
    "state": "state: changes handed over",
    LOOP: "event loop: `epoll`, TCP in and out, timers (most of it the kernel)",
    OTHER: "other threads: writing to disk",
}


@dataclass(frozen=True, slots=True)
class Split:
    """CPU microseconds of a message."""

    scenario: Scenario
    parts: Mapping[str, float]
    whole: float  # without clocks
    whole_in_kernel: float
    as_run: float  # with whatever is compiled here
    as_run_in_kernel: float
    per_look: float  # messages for each look at the UDP socket

    @property
    def timed(self) -> float:
        return sum(self.parts.values())


def encode_us(frames: Sequence[Frame]) -> float:
    """To encode all of these once; the best of some rounds."""
    if not frames:
        return 0.0
    best = float("inf")
    for _ in range(ENCODE_ROUNDS):
        began = time.thread_time()
        for _ in range(ENCODED):
            for frame in frames:
                encode(frame)
        best = min(best, time.thread_time() - began)
    return best / ENCODED * 1e6


def parts_of(report: Mapping[str, Any], messages: float, encoding_us: float) -> dict[str, float]:
    parts = {name: report["seconds"][name] / messages * 1e6 for name in PARTS}
    parts["shell"] -= encoding_us
    return {**parts, ENCODE: encoding_us, OTHER: report["other_threads_s"] / messages * 1e6}


def run_once(scenario: Scenario, setting: Setting) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the generator said, and the report of the clocks if there are any."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-where-")))
        broker = stack.enter_context(Mosquitto(scenario.broker_config))
        report = folder / REPORT
        command = [word.replace("{report}", str(report)) for word in setting.gateway_command]
        gateway = stack.enter_context(GatewayProcess(command, folder, broker.port))
        where = ["--port", str(gateway.port), "--gateway-pid", str(gateway.pid)]
        output = generated(scenario, setting, [*where, *at_broker(broker, setting)])
        if gateway.stop() != 0:
            raise MeasurementError(f"the gateway ended in disorder:\n{gateway.log_tail()}")
        said: dict[str, Any] = json.loads(output)
        timed: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
        return said, timed


def split(scenario: Scenario, sent: Sequence[Frame], setting: Setting, repeats: int) -> Split:
    sources_setting = replace(setting, gateway_command=(*SOURCES, *setting.gateway_command))
    timed_setting = replace(
        setting, gateway_command=(*SOURCES, *TIMED, "{report}", "run", "--config", "{config}")
    )
    encoding_us = encode_us(sent)
    plain: list[Measurement] = []
    as_run: list[Measurement] = []
    parts: list[dict[str, float]] = []
    per_look: list[float] = []
    for repeat in range(repeats):
        part.say(f"{scenario.title}: {repeat + 1} of {repeats}, without clocks and with them")
        for each, runs in ((setting, as_run), (sources_setting, plain)):
            said, _ = run_once(scenario, each)
            runs.append(Measurement.from_output(json.dumps(said)))
        said, report = run_once(scenario, timed_setting)
        if not said["received"]:
            raise MeasurementError(f"{scenario.title}: nothing arrived")
        parts.append(parts_of(report, said["received"], encoding_us))
        per_look.append(said["received"] / max(1, report["calls"]["engine, sensors"]))
    return Split(
        scenario,
        {name: median(each[name] for each in parts) for name in parts[0]},
        median(run.figures.gateway_cpu_us or 0.0 for run in plain),
        median(run.figures.kernel_cpu_us or 0.0 for run in plain),
        median(run.figures.gateway_cpu_us or 0.0 for run in as_run),
        median(run.figures.kernel_cpu_us or 0.0 for run in as_run),
        median(per_look),
    )


def table(title: str, splits: Sequence[Split], form: str) -> Table:
    lines = [(said, *_in_all(splits, partial(_share_of, name))) for name, said in SAID.items()]
    lines.append(
        ("all of it, with clocks", *_in_all(splits, lambda each: (each.timed, each.timed)))
    )
    lines.append(("the gateway without clocks", *_in_all(splits, lambda each: (each.whole, 0.0))))
    in_kernel = _in_all(splits, lambda each: (each.whole_in_kernel, each.whole))
    lines.append(("of that in the kernel", *in_kernel))
    as_run = _in_all(splits, lambda each: (each.as_run, each.whole))
    lines.append((f"the gateway as it is run here ({form})", *as_run))
    in_kernel = _in_all(splits, lambda each: (each.as_run_in_kernel, each.as_run))
    lines.append((f"of that in the kernel ({form})", *in_kernel))
    header = [cell for each in splits for cell in (f"{each.scenario.title}, µs", "share")]
    return Table(title, ("part", *header), tuple(lines))


def summary(splits: Sequence[Split], form: str) -> Table:
    """Parts that belong together in one line, of some rows."""
    shown = [each for each in splits if each.scenario.name in SUMMARY]
    names = dict.fromkeys(said.partition(":")[0] for said in SAID.values())
    groups = [name for name in names if any(_sum_of(name, each) >= 0.01 for each in shown)]
    lines = [(group, *(number(_sum_of(group, each), 2) for each in shown)) for group in groups]
    lines += [
        (f"the gateway as it is run ({form})", *(number(each.as_run, 2) for each in shown)),
        ("of that in the kernel", *(number(each.as_run_in_kernel, 2) for each in shown)),
    ]
    return Table(
        "CPU µs of a message, by part, from the sources",
        ("part", *(each.scenario.title for each in shown)),
        tuple(lines),
    )


def _sum_of(group: str, one: Split) -> float:
    return sum(one.parts[name] for name, said in SAID.items() if said.partition(":")[0] == group)


def _in_all(
    splits: Sequence[Split], pair: Callable[[Split], tuple[float, float]]
) -> tuple[str, ...]:
    return tuple(cell for each in splits for cell in _cells(*pair(each)))


def _share_of(name: str, one: Split) -> tuple[float, float]:
    return one.parts[name], one.timed


def _cells(us: float, whole: float) -> tuple[str, str]:
    return number(us, 2), f"{us / whole:.0%}" if whole else ""


def result(tables: Mapping[str, Sequence[Split]], form: str) -> part.Result:
    """`tables`: by title; `form`: which of the gateway's runs here."""
    splits = [each for group in tables.values() for each in group]
    figures = {
        "splits": [
            {
                "name": each.scenario.name,
                "parts_us": dict(each.parts),
                "whole_us": each.whole,
                "whole_in_kernel_us": each.whole_in_kernel,
                "as_run_us": each.as_run,
                "as_run_in_kernel_us": each.as_run_in_kernel,
                "messages_per_look": each.per_look,
            }
            for each in splits
        ]
    }
    drawn = tuple(table(title, group, form) for title, group in tables.items())
    return part.Result(drawn, figures, summary=summary(splits, form))


def _measure(asked: argparse.Namespace) -> part.Result:
    rows = {row.name: row for row in MATRIX}
    setting = Setting(
        generator=generator.build(),
        gateway_command=DEFAULT_COMMAND,
        seconds=QUICK_SECONDS if asked.quick else SECONDS,
        mqtt_version=5,
    )
    repeats = 1 if asked.quick else REPEATS
    return result(
        {
            title: [split(rows[name], sent, setting, repeats) for name, sent in group.items()]
            for title, group in SENT.items()
        },
        compiled.found(os.environ)[0].value,
    )


def main(words: Sequence[str]) -> int:
    made = part.parser("tests.bench.where", "Split the gateway's CPU time for a message.")
    return part.run("where", made, words, _measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
