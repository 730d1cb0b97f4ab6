"""Who may import whom: the contracts of pyproject.toml hold, and a breach of each is found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("lint-imports")
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
LINTER = PROJECT["tool"]["importlinter"]

# A breach of each contract, in their order: the file that it is put into, and what it imports.
BREACHES = (
    ("gateway/transports/tls.py", "gateway.storage.worker"),
    ("gateway/core/session/will.py", "gateway.core.clients.half_open"),
    ("gateway/presence/standing.py", "asyncio"),
    ("gateway/core/uplink/spill.py", "gateway.core.uplink.deferred"),
    ("gateway/storage/journal/files.py", "gateway.storage.state.store"),
    ("gateway/app/shell.py", "gateway.app.daemon"),
    ("gateway/core/engine.py", "mqtt5"),
    ("spark_ingest/collect/session.py", "gateway.core.mqtt.session"),
    ("spark_ingest/payload/senml.py", "spark_ingest.segments.shelf"),
    ("spark_ingest/segments/rows.py", "time"),
    ("spark_ingest/collect/collector.py", "pyspark"),
)
# As pyproject.toml names what is imported by another name.
DISTRIBUTIONS = {
    "confluent_kafka": "confluent-kafka",
    "google_crc32c": "google-crc32c",
    "grpc": "grpcio",
    "numpy": "pandas",  # which cannot be without it
    "paho": "paho-mqtt",
    "prometheus_client": "prometheus-client",
    "py4j": "pyspark",
    "OpenSSL": "pyopenssl",
    "serial": "pyserial",
}

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="import-linter has no build for this machine"
)


def lint(root: Path) -> tuple[int, str]:
    """Its exit code, and what it prints; of the packages in this folder."""
    done = subprocess.run(
        [str(PROGRAM), "--no-cache"], cwd=root, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def copy_into(folder: Path) -> None:
    """All that the linter reads."""
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    for name in LINTER["root_packages"]:
        ignored = shutil.ignore_patterns("__pycache__", "compiled_modules")
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)


def test_every_contract_is_kept() -> None:
    code, printed = lint(REPOSITORY)
    assert code == 0, printed


def test_a_breach_of_each_contract_is_found(tmp_path: Path) -> None:
    copy_into(tmp_path)
    for path, module in BREACHES:
        file = tmp_path / path
        file.write_text(f"{file.read_text()}\n\ndef breach() -> None:\n    import {module}\n")
    code, printed = lint(tmp_path)
    assert code == 1
    names = [contract["name"] for contract in LINTER["contracts"]]
    assert len(names) == len(BREACHES)
    _, details = printed.split("Broken contracts")
    for name, (path, module) in zip(names, BREACHES, strict=True):
        importer = path.removesuffix(".py").replace("/", ".")
        found = details.split(f"\n{name}\n")[1].split("\n\n\n\n")[0]
        assert f"{importer} -> {module} " in found, name


def test_a_package_that_no_contract_names_is_found(tmp_path: Path) -> None:
    copy_into(tmp_path)
    new = tmp_path / "gateway" / "new"
    new.mkdir()
    (new / "__init__.py").touch()
    code, printed = lint(tmp_path)
    assert code != 0
    assert re.search(r"^- (gateway\.)?new$", printed, re.MULTILINE), printed


def test_coverage_is_measured_in_all_that_touches_nothing_outside() -> None:
    left_out = PROJECT["tool"]["coverage"]["run"]["omit"]
    assert PROJECT["tool"]["coverage"]["run"]["source"] == ["gateway", "spark_ingest"]
    assert PROJECT["tool"]["coverage"]["report"]["fail_under"] == 100
    pure = [
        module.replace(".", "/")
        for contract in LINTER["contracts"]
        if "touches no clock" in contract["name"]
        for module in contract["source_modules"]
    ]
    for module in pure:
        path = f"{module}.py" if (REPOSITORY / f"{module}.py").exists() else f"{module}/x.py"
        assert not [pattern for pattern in left_out if Path(path).match(pattern)], module


def test_every_package_that_a_contract_names_is_a_declared_dependency() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    declared = " ".join(
        [
            *project["dependencies"],
            *(
                each
                for name in ("demo", "dtls", "spark", "connect", "kafka")
                for each in extras[name]
            ),
        ]
    )
    named = {
        module
        for contract in LINTER["contracts"]
        for module in contract.get("forbidden_modules", ())
        if module not in sys.stdlib_module_names
    }
    missing = [name for name in sorted(named) if DISTRIBUTIONS.get(name, name) not in declared]
    assert missing == []
