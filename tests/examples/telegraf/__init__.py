"""A real Telegraf, from its Go module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.examples import REPOSITORY

VERSION = "v1.37.2"
MODULE = "github.com/influxdata/telegraf"
FOLDER = REPOSITORY / "build" / f"telegraf-{VERSION}"
SOURCE = Path(__file__).with_name("main.go")
DOWNLOAD_S, BUILD_S = 300, 1500


def telegraf() -> Path:
    """Builds it the first time, a minute or two, into build/; skips the test without Go."""
    program = FOLDER / "telegraf"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip("Telegraf is built from its Go module, and there is no Go on this machine")
    FOLDER.mkdir(parents=True, exist_ok=True)
    asked = [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    try:
        found = subprocess.run(
            asked, cwd=FOLDER, capture_output=True, check=True, timeout=DOWNLOAD_S
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        pytest.skip("Telegraf's Go module cannot be fetched here")
    theirs = Path(json.loads(found.stdout)["Dir"])
    # Its own versions of everything, and their hashes.
    text = (theirs / "go.mod").read_text().replace(f"module {MODULE}", "module ours", 1)
    (FOLDER / "go.mod").write_text(f"{text}\nrequire {MODULE} {VERSION}\n")
    (FOLDER / "go.sum").write_bytes((theirs / "go.sum").read_bytes())
    shutil.copyfile(SOURCE, FOLDER / "main.go")
    build = [go, "build", "-mod=mod", "-p", "1", "-o", f"{program}.new", "."]
    subprocess.run(
        build, cwd=FOLDER, env={**os.environ, "GOFLAGS": ""}, check=True, timeout=BUILD_S
    )
    Path(f"{program}.new").rename(program)
    return program
