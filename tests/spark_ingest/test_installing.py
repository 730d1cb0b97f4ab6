"""What to type where a package is missing, in each environment that there may be."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from spark_ingest import installing
from spark_ingest.installing import brings, installs


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Of this user, with pip, and no clone's own Python."""
    monkeypatch.setattr(sys, "prefix", "/opt/some env")
    monkeypatch.setattr(sys, "executable", "/opt/some env/bin/python")
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    return monkeypatch


def test_pip_of_the_environment_installs_them(environment: pytest.MonkeyPatch) -> None:
    assert installs("a", "b>=1") == "'/opt/some env/bin/python' -m pip install a 'b>=1'"
    environment.setattr(os, "access", lambda *_: False)
    assert installs("a") == "sudo '/opt/some env/bin/python' -m pip install a"


def test_where_there_is_no_pip_uv_does(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(importlib.util, "find_spec", lambda _: None)
    assert installs("a") == "uv pip install --python '/opt/some env/bin/python' a"
    environment.setattr(os, "access", lambda *_: False)
    assert installs("a").startswith('sudo "$(command -v uv)" pip install --python ')


def test_in_a_clone_without_an_environment_set_up_does(environment: pytest.MonkeyPatch) -> None:
    environment.setattr(sys, "prefix", sys.base_prefix)
    assert installs("a").endswith(" setup, then .venv/bin/python there")


def test_an_extra_is_its_packages_with_what_their_markers_say_besides(
    environment: pytest.MonkeyPatch,
) -> None:
    needed = [
        "pyserial>=3.5",
        'a>=1; extra == "collect"',
        "b; python_version < '3.12' and extra == 'collect'",
        'c; extra == "flash"',
    ]
    environment.setattr(installing, "requires", lambda _: needed)
    assert brings("collect", "x").endswith(
        " install 'a>=1' 'b; python_version < '\"'\"'3.12'\"'\"''"
    )


@pytest.mark.parametrize("raises", [False, True])
def test_where_no_extra_is_known_what_is_missing_is_named(
    environment: pytest.MonkeyPatch, raises: bool
) -> None:
    def requires(_: str) -> None:
        if raises:
            raise PackageNotFoundError

    environment.setattr(installing, "requires", requires)
    assert brings("collect", "pyarrow").endswith(" -m pip install pyarrow")
