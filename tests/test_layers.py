"""Who may import whom: the rule of docs/design.md, held against every file.

The core (`PURE`) touches no clock, socket, disk, thread or random source, and imports point down
only, so that the simulator can run the very same code. Imports are read from the syntax tree; one
inside a function or under TYPE_CHECKING counts like any other. What is not named here is refused.
"""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.imports import imports_of
from tests.ingest_layers import INGEST_LAYERS, INGEST_ONE_FILE, INGEST_PURE, Allowed, allowed

REPOSITORY = Path(__file__).resolve().parent.parent

# Import packages that never see each other; golden files bind them.
TREES = ("gateway", "firmware", "hil", "spark_ingest")

PURE = frozenset(
    {
        *(
            "frames",
            "lines",
            "saved",
            "part",
            "reasons",
            "runs",
            "process_pauses",
            "effects",
            "nodes",
        ),
        *("session", "routing", "upstream", "bequests", "custody", "notices"),
        *("uplink", "downlink", "rules", "withholding", "restoring", "door"),
        *("desk", "intake", "engine", "alarm_names", "liveness"),
    }
)
ONE_FILE = (
    *("saved", "part", "reasons", "runs", "effects", "nodes", "bequests", "unsure", "followers"),
    *("postponed", "spilling", "uplink", "downlink", "rules", "withholding", "restoring", "door"),
    *("desk", "intake", "engine", "alarm_names", "liveness", "process_pauses"),
)
FORBIDDEN_TO_PURE = frozenset(
    {"asyncio", "socket", "time", "random", "logging", "os", "threading", "sqlite3"}
)

EVERY_LAYER = (
    *("frames", "lines", "saved", "part", "reasons", "runs", "process_pauses", "effects", "nodes"),
    *("session", "routing", "upstream", "bequests", "unsure", "followers", "custody"),
    *("postponed", "spilling", "uplink", "downlink", "rules", "withholding", "restoring", "door"),
    *("desk", "intake", "engine", "alarm_names", "liveness", "watch", "watch_parts"),
    *("config", "host", "links", "journal", "state", "admin", "shell", "assembly"),
    *("roster", "census", "keeping", "sensor_links", "lookout", "clerk", "buffer_reader"),
    *("admin_parts", "mending", "flashing", "credentials", "service", "backup"),
    *("notices", "announced", "herald", "herald_parts", "home_assistant_parts"),
    *("compiled", "settling", "slow_callbacks", "version", "daemon", "cli", "__main__"),
    "side_thread",
)
EVERY_PACKAGE = (
    *("aiomqtt", "cbor2", "google_crc32c", "microdot", "mqtt5", "paho"),
    *("rich", "serial", "uvloop"),
)
LAYERS = {
    "frames": allowed(),
    "lines": allowed("frames"),
    "saved": allowed(),
    "part": allowed(),
    "reasons": allowed(),
    "runs": allowed(),
    "process_pauses": allowed(),
    "work_thread": allowed("host"),
    "side_thread": allowed("host"),
    "slow_callbacks": allowed(),
    "effects": allowed("saved", "part", "reasons", "runs", "process_pauses", "frames"),
    "nodes": allowed(),
    "session": allowed("effects", "saved", "frames"),
    "upstream": allowed("effects", "saved", "frames", packages=("mqtt5",)),
    "routing": allowed("session", "effects", "saved", "frames"),
    # The engine's halves; see their first lines.
    "bequests": allowed("effects", "saved", "frames"),
    "unsure": allowed("effects"),
    "followers": allowed("effects"),
    "postponed": allowed("effects"),
    "spilling": allowed("effects"),
    "custody": allowed("effects"),
    "uplink": allowed(
        *("bequests", "unsure", "followers", "postponed", "spilling", "custody", "routing"),
        *("session", "upstream", "effects", "saved", "frames"),
    ),
    "downlink": allowed("routing", "session", "upstream", "effects", "saved", "frames"),
    "rules": allowed("uplink", "custody", "routing", "session", "upstream"),
    "withholding": allowed("session", "effects", "saved", "frames"),
    "restoring": allowed("downlink", "routing", "session", "upstream", "effects", "saved"),
    "door": allowed("downlink", "rules", "routing", "session", "effects", "frames"),
    "desk": allowed("door", "uplink", "downlink", "session", "effects"),
    "intake": allowed("door", "rules", "routing", "session", "effects", "nodes", "frames"),
    "engine": allowed(
        *("bequests", "custody", "uplink", "downlink", "rules", "withholding"),
        *("restoring", "door", "desk", "intake"),
        *("routing", "session", "upstream", "effects", "nodes", "saved", "frames"),
    ),
    "alarm_names": allowed(),
    "liveness": allowed("alarm_names", "engine", "upstream", "session", "effects"),
    "watch": allowed("alarm_names", "liveness", "admin", "engine", "effects"),
    "config": allowed(),
    "host": allowed("config"),
    "links": allowed(
        *("effects", "lines", "frames", "nodes", "config", "host"), packages=("mqtt5", "serial")
    ),
    "journal": allowed(
        *("effects", "saved", "frames", "config", "host", "work_thread"),
        packages=("google_crc32c",),
    ),
    "state": allowed("effects", "saved", "frames", "config", "host", "work_thread"),
    "admin": allowed(
        *("alarm_names", "effects", "frames", "config", "host", "slow_callbacks"),
        packages=("cbor2", "microdot"),
    ),
    "shell": allowed("engine", "effects", "nodes", "saved", "frames", "links", "slow_callbacks"),
    "assembly": allowed(
        "config", "custody", "engine", "journal", "routing", "session", "uplink", "upstream"
    ),
    **dict.fromkeys(("keeping", "watch_parts", "herald_parts"), allowed(*EVERY_LAYER)),
    "notices": allowed("admin", "effects", "session"),
    "announced": allowed("effects", "notices"),
    "herald": allowed(
        *("admin", "effects", "engine", "links", "notices", "slow_callbacks", "upstream")
    ),
    "home_assistant_parts": allowed("admin", "config", "effects", "notices", "version"),
    "roster": allowed("admin", "effects", "engine", "notices", "routing", "session"),
    "census": allowed(
        *("custody", "notices", "admin", "effects", "engine", "lines", "links", "journal"),
        *("alarm_names", "state"),
    ),
    "sensor_links": allowed(
        "assembly", "config", "effects", "links", "nodes", "shell", "side_thread"
    ),
    "lookout": allowed("admin", "engine"),
    "clerk": allowed("admin", "effects", "engine", "session"),
    "buffer_reader": allowed("admin", "config", "links"),
    "admin_parts": allowed(*EVERY_LAYER),
    "mending": allowed("admin", "config", "service", "side_thread", "version"),
    "credentials": allowed("config", "links"),
    "backup": allowed("config", "journal", "state", "version"),
    "service": allowed("census", "config", "credentials", "links", "side_thread"),
    "flashing": allowed("config", "frames", "lines", "links", packages=("serial",)),
    "compiled": allowed(),
    "settling": allowed(),
    "version": allowed(),
    "daemon": allowed(*EVERY_LAYER, packages=EVERY_PACKAGE),
    "cli": allowed(*EVERY_LAYER, packages=EVERY_PACKAGE),
    "__main__": allowed(*EVERY_LAYER, packages=EVERY_PACKAGE),
    "__init__": allowed(),
}


@dataclass(frozen=True, slots=True)
class Tree:
    name: str
    layers: Mapping[str, Allowed]
    pure: frozenset[str]


LAYERED = (
    Tree("gateway", LAYERS, PURE),
    Tree("spark_ingest", INGEST_LAYERS, INGEST_PURE),
)


def layer_of(path: Path, root: Path) -> str:
    return Path(path.relative_to(root).parts[1]).stem


def breach_of(tree: Tree, layer: str, module: str) -> str | None:
    """What is wrong with this import in this layer of the tree."""
    first, *rest = module.split(".")
    rule = tree.layers[layer]
    if first == tree.name:
        target = rest[0] if rest else "__init__"
        # `gateway.__version__` and the like live in gateway/__init__.py, which imports nothing.
        if target not in tree.layers or target in (layer, "__init__") or target in rule.layers:
            return None
        return f"{layer} must not import {tree.name}.{target}"
    if first in sys.stdlib_module_names:
        if layer in tree.pure and first in FORBIDDEN_TO_PURE:
            return f"{layer} is pure and must not import {first}"
        return None
    if first in TREES:
        return f"{tree.name} and {first} must not import each other"
    return None if first in rule.packages else f"{layer} must not import the package {first}"


def layer_breaches(root: Path, tree: Tree) -> Iterator[str]:
    for path in sorted((root / tree.name).rglob("*.py")):
        layer = layer_of(path, root)
        where = path.relative_to(root)
        if layer not in tree.layers:
            yield f"{where}: no rule for the layer {layer}; give it a line in tests/test_layers.py"
            continue
        # `from x import a, b` is one import, not two.
        used = imports_of(path, root)
        found = {(each.line, breach_of(tree, layer, each.module)) for each in used}
        yield from (f"{where}:{line}: {breach}" for line, breach in sorted_found(found))


def sorted_found(found: set[tuple[int, str | None]]) -> list[tuple[int, str]]:
    return sorted((line, breach) for line, breach in found if breach is not None)


def tree_breaches(root: Path) -> Iterator[str]:
    for tree in TREES[1:]:
        for path in sorted((root / tree).rglob("*.py")):
            for used in imports_of(path, root):
                other = used.module.split(".")[0]
                if other in TREES and other != tree:
                    where = f"{path.relative_to(root)}:{used.line}"
                    yield f"{where}: {tree} and {other} must not import each other"


def breaches(root: Path) -> list[str]:
    layered = (breach for tree in LAYERED for breach in layer_breaches(root, tree))
    return sorted({*layered, *tree_breaches(root)})


def plant(root: Path, path: str, source: str) -> None:
    """The layers as empty packages, and one file with `source`."""
    for name in ("frames", "session", "links"):
        package = root / "gateway" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
    planted = root / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(source)


def test_every_layer_imports_only_what_it_may() -> None:
    assert breaches(REPOSITORY) == []


BREACHES = [
    ("gateway/frames/codec.py", "import asyncio", "frames is pure and must not import asyncio"),
    ("gateway/lines/raw.py", "import time", "lines is pure and must not import time"),
    ("gateway/lines/raw.py", "import serial", "lines must not import the package serial"),
    (
        "gateway/lines/listener.py",
        "from gateway.links import udp",
        "lines must not import gateway.links",
    ),
    ("gateway/frames/codec.py", "import cbor2", "frames must not import the package cbor2"),
    ("gateway/frames/codec.py", "import mqtt5", "frames must not import the package mqtt5"),
    (
        "gateway/frames/codec.py",
        "from gateway.effects import Send",
        "frames must not import gateway.effects",
    ),
    ("gateway/effects.py", "import time", "effects is pure and must not import time"),
    (
        "gateway/effects.py",
        "from gateway.session.session import Session",
        "effects must not import gateway.session",
    ),
    ("gateway/session/session.py", "import random", "session is pure and must not import random"),
    ("gateway/session/session.py", "import mqtt5", "session must not import the package mqtt5"),
    (
        "gateway/session/session.py",
        "from gateway import routing",
        "session must not import gateway.routing",
    ),
    (
        "gateway/session/session.py",
        "from ..routing import topic_filter",
        "session must not import gateway.routing",
    ),
    (
        "gateway/session/session.py",
        "from .. import links",
        "session must not import gateway.links",
    ),
    (
        "gateway/session/deep/down.py",
        "from ...links import udp",
        "session must not import gateway.links",
    ),
    (
        "gateway/routing/retained.py",
        "import sqlite3",
        "routing is pure and must not import sqlite3",
    ),
    (
        "gateway/routing/retained.py",
        "from gateway.upstream import broker_session",
        "routing must not import gateway.upstream",
    ),
    ("gateway/upstream/ids.py", "import socket", "upstream is pure and must not import socket"),
    ("gateway/upstream/ids.py", "import aiomqtt", "upstream must not import the package aiomqtt"),
    (
        "gateway/upstream/ids.py",
        "from gateway.session import states",
        "upstream must not import gateway.session",
    ),
    ("gateway/engine.py", "import logging", "engine is pure and must not import logging"),
    ("gateway/engine.py", "import threading", "engine is pure and must not import threading"),
    ("gateway/engine.py", "from os.path import join", "engine is pure and must not import os"),
    ("gateway/engine.py", "import mqtt5", "engine must not import the package mqtt5"),
    ("gateway/engine.py", "import gateway.links.udp", "engine must not import gateway.links"),
    (
        "gateway/links/udp.py",
        "from gateway.session import Session",
        "links must not import gateway.session",
    ),
    ("gateway/links/udp.py", "import gateway.engine", "links must not import gateway.engine"),
    ("gateway/links/udp.py", "import aioudp", "links must not import the package aioudp"),
    ("gateway/state/store.py", "import gateway.routing", "state must not import gateway.routing"),
    ("gateway/admin/pages.py", "import gateway.daemon", "admin must not import gateway.daemon"),
    ("gateway/journal/files.py", "import gateway.state", "journal must not import gateway.state"),
    ("gateway/shell.py", "import gateway.session", "shell must not import gateway.session"),
    ("gateway/shell.py", "import gateway.daemon", "shell must not import gateway.daemon"),
    ("gateway/assembly.py", "import gateway.links", "assembly must not import gateway.links"),
    ("gateway/config/reader.py", "import gateway.frames", "config must not import gateway.frames"),
    ("gateway/config/reader.py", "import pydantic", "config must not import the package pydantic"),
    ("gateway/__init__.py", "import gateway.daemon", "__init__ must not import gateway.daemon"),
    ("gateway/cli/run.py", "import requests", "cli must not import the package requests"),
    ("gateway/cli/run.py", "import firmware", "gateway and firmware must not import each other"),
    ("gateway/new/part.py", "", "no rule for the layer new"),
    (
        "gateway/session/late.py",
        "def f() -> None:\n    import time",
        "late.py:2: session is pure and must not import time",
    ),
    (
        "gateway/session/typed.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from gateway.links import udp",
        "typed.py:3: session must not import gateway.links",
    ),
    (
        "gateway/session/dynamic.py",
        "import importlib\nudp = importlib.import_module('gateway.links.udp')",
        "dynamic.py:2: session must not import gateway.links",
    ),
    (
        "firmware/app/main.py",
        "from gateway.frames import codec",
        "firmware and gateway must not import each other",
    ),
    (
        "spark_ingest/rows.py",
        "import gateway",
        "spark_ingest and gateway must not import each other",
    ),
    (
        "spark_ingest/rows.py",
        "import firmware.app",
        "spark_ingest and firmware must not import each other",
    ),
    ("spark_ingest/rows.py", "import pyarrow", "rows must not import the package pyarrow"),
    ("spark_ingest/session.py", "import asyncio", "session is pure and must not import asyncio"),
    (
        "spark_ingest/payload/senml.py",
        "from spark_ingest import shelf",
        "payload must not import spark_ingest.shelf",
    ),
    (
        "spark_ingest/collector.py",
        "def run() -> None:\n    import pyspark",
        "collector must not import the package pyspark",
    ),
    ("spark_ingest/delta/table.py", "import pyspark", "delta must not import the package pyspark"),
    (
        "spark_ingest/planning/plan.py",
        "from spark_ingest import lake",
        "planning must not import spark_ingest.lake",
    ),
    ("spark_ingest/silver.py", "", "no rule for the layer silver"),
]


@pytest.mark.parametrize(("path", "source", "message"), BREACHES)
def test_a_planted_breach_is_found(tmp_path: Path, path: str, source: str, message: str) -> None:
    plant(tmp_path, path, source)
    (found,) = breaches(tmp_path)
    assert found.startswith(path)
    assert message in found


@pytest.mark.parametrize("module", sorted(FORBIDDEN_TO_PURE))
@pytest.mark.parametrize("layer", sorted(PURE))
def test_no_pure_layer_may_import_what_touches_the_world(
    tmp_path: Path, layer: str, module: str
) -> None:
    path = f"gateway/{layer}.py" if layer in ONE_FILE else f"gateway/{layer}/part.py"
    plant(tmp_path, path, f"import {module}")
    assert breaches(tmp_path) == [f"{path}:1: {layer} is pure and must not import {module}"]


@pytest.mark.parametrize("layer", sorted(INGEST_PURE))
def test_no_pure_layer_of_the_ingest_may_either(tmp_path: Path, layer: str) -> None:
    path = f"spark_ingest/{layer}.py" if layer in INGEST_ONE_FILE else f"spark_ingest/{layer}/x.py"
    plant(tmp_path, path, "import time")
    assert breaches(tmp_path) == [f"{path}:1: {layer} is pure and must not import time"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("gateway/frames/codec.py", "import struct\nfrom gateway.frames.messages import Frame"),
        ("gateway/frames/codec.py", "from . import messages\nfrom .fields import Flags"),
        ("gateway/session/session.py", "from gateway.effects import Send\nimport heapq"),
        ("gateway/session/session.py", "from gateway import frames, effects, __version__"),
        ("gateway/upstream/packets.py", "import mqtt5\nfrom ..effects import Send"),
        ("gateway/engine.py", "from gateway.routing import subscriptions, retained"),
        ("gateway/links/udp.py", "import asyncio, socket\nfrom gateway.config.settings import Udp"),
        ("gateway/state/store.py", "import sqlite3\nfrom gateway.effects import Store"),
        ("gateway/admin/server.py", "import cbor2, microdot"),
        ("gateway/daemon.py", "from gateway import admin, engine, links, state\nimport uvloop"),
        ("gateway/cli/sensors/sensor.py", "import cbor2\nfrom gateway.frames import codec"),
        ("gateway/__main__.py", "from gateway.cli import run"),
        ("firmware/app/main.py", "import machine\nfrom mqttsn import Client"),
        ("spark_ingest/segment.py", "import pyarrow\nfrom spark_ingest.rows import Columns"),
        ("spark_ingest/collector.py", "import asyncio\nfrom spark_ingest import session, batch"),
    ],
)
def test_what_points_down_is_free(tmp_path: Path, path: str, source: str) -> None:
    plant(tmp_path, path, source)
    assert breaches(tmp_path) == []


def test_coverage_is_measured_in_all_of_the_core_and_left_out_of_the_shell_only() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    run = project["tool"]["coverage"]["run"]
    assert run["source"] == [tree.name for tree in LAYERED]
    for tree in LAYERED:
        patterns = [Path(pattern) for pattern in run["omit"] if pattern.startswith(tree.name)]
        left_out = {pattern.parts[1].removesuffix(".py") for pattern in patterns}
        assert left_out <= tree.layers.keys() - tree.pure
    assert project["tool"]["coverage"]["report"]["fail_under"] == 100


def test_every_package_the_rules_name_is_a_declared_dependency() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    theirs = ("demo", "spark", "connect", "kafka")
    declared = " ".join(
        [*project["dependencies"], *(each for name in theirs for each in extras[name])]
    )
    distributions = {
        "confluent_kafka": "confluent-kafka",
        "google_crc32c": "google-crc32c",
        "grpc": "grpcio",
        "numpy": "pandas",  # which cannot be without it
        "py4j": "pyspark",
        "paho": "paho-mqtt",
        "prometheus_client": "prometheus-client",
        "serial": "pyserial",
    }
    named = {*EVERY_PACKAGE, *(name for rule in INGEST_LAYERS.values() for name in rule.packages)}
    missing = [name for name in sorted(named) if distributions.get(name, name) not in declared]
    assert missing == []
