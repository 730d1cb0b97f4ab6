"""The blocks of a page, typed in a folder that stands for the machine: what they would write to
/etc and the home folder goes there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.examples import REPOSITORY

# Users and services of the machine are not touched.
_STUBS = {
    "sudo": 'exec "$@"',
    "systemctl": "exit 0",
    "tidegate": f'exec {REPOSITORY}/.venv/bin/tidegate "$@"',
}
_OWNER = re.compile(r"-[og] (?:root|mosquitto|tidegate) ")
_ETC = re.compile(r"(?<![\w/])/etc/")
BLOCK_S_MAX = 60


def shell_blocks(page: str) -> list[str]:
    return [block.text for block in blocks_of(REPOSITORY / "docs" / page) if block.tag == "sh"]


def typed(
    block: str,
    root: Path,
    changes: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the block says, with `changes` made to it. It must succeed."""
    stubs = root / "stubs"
    stubs.mkdir(exist_ok=True)
    for name, script in _STUBS.items():
        (stubs / name).write_text(f"#!/bin/sh\n{script}\n")
        (stubs / name).chmod(0o755)
    text = _OWNER.sub("", block)
    for old, new in changes.items():
        text = text.replace(old, new)
    text = _ETC.sub(f"{root}/etc/", text)
    variables = {
        **os.environ,
        **(environment or {}),
        "HOME": str(root / "home"),
        "PATH": f"{stubs}:{REPOSITORY / '.venv/bin'}:{os.environ['PATH']}:/usr/sbin",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=REPOSITORY,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=BLOCK_S_MAX,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout
