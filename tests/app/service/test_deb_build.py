"""How the Debian package is put together, without a network and without a Debian."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from gateway.host.compiled import PACKAGE, Form, folder_of, found
from tests.support.ci_scripts import ci_script

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPTS = REPOSITORY / ".ci" / "deb"


@pytest.fixture(scope="module")
def deb() -> ModuleType:
    return ci_script("deb")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def names(pinned: list[str]) -> set[str]:
    return {pin.partition("==")[0] for pin in pinned}


def test_what_is_inside_is_what_the_gateway_needs_at_the_locked_versions(deb: ModuleType) -> None:
    everywhere = {"mqtt5", "cbor2", "pyserial", "microdot", "shtab"}
    compiled = {"uvloop", "google-crc32c"}
    for machine in ("x86_64", "aarch64"):
        assert names(deb.pins(machine)) == everywhere | compiled
    assert names(deb.pins("armv7l")) == everywhere
    locked = (REPOSITORY / ".ci/requirements.lock").read_text()
    for pin in deb.pins("armv7l"):
        assert f"\n{pin.partition(' ')[0]} " in locked
    # cbor2 6 has no build for 32 bits.
    assert any(pin.startswith("cbor2==5.") for pin in deb.pins("armv7l"))
    assert any(pin.startswith("cbor2==6.") for pin in deb.pins("aarch64"))


def test_the_wheels_inside_are_those_of_the_locked_hashes(
    deb: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = (REPOSITORY / ".ci/requirements.lock").read_text()
    monkeypatch.setattr(deb, "this_architecture", lambda: "amd64")
    for pin in deb.pins("x86_64"):
        _, *hashes = pin.split(" --hash=sha256:")
        assert hashes, pin
        assert all(f"sha256:{each}" in locked for each in hashes)
    # What a 32-bit Raspberry Pi OS builds from are wheels of its own index.
    monkeypatch.setattr(deb, "this_architecture", lambda: "armhf")
    assert not any("--hash" in pin for pin in deb.pins("armv7l"))


def test_the_pythons_inside_are_those_that_the_package_asks_for(deb: ModuleType) -> None:
    control = (SCRIPTS / "control").read_text()
    least, below = re.findall(r"python3 \([<>=]+ 3\.(\d+)\)", control)
    inside = [int(python.partition(".")[2]) for python in deb.PYTHONS]
    assert (min(inside), max(inside) + 1) == (int(least), int(below))
    assert inside == list(range(min(inside), max(inside) + 1))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">=3.{least}"


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, octets in files.items():
            archive.writestr(name, octets)
    return path


def test_wheels_of_several_pythons_lie_side_by_side(deb: ModuleType, tmp_path: Path) -> None:
    common = {"p/__init__.py": b"", "p-1.dist-info/METADATA": b"Name: p"}
    for number in ("311", "313"):
        own = {f"p/x.cpython-{number}.so": b"so", "p-1.dist-info/WHEEL": number.encode()}
        deb.unpack(wheel(tmp_path / f"{number}.whl", common | own), tmp_path / "root")
    found = sorted(path.name for path in (tmp_path / "root").rglob("*") if path.is_file())
    assert found == ["METADATA", "__init__.py", "x.cpython-311.so", "x.cpython-313.so"]


def test_two_files_of_one_name_stop_the_build(deb: ModuleType, tmp_path: Path) -> None:
    deb.unpack(wheel(tmp_path / "a.whl", {"p/x.py": b"1"}), tmp_path / "root")
    with pytest.raises(deb.BuildError, match=r"b\.whl has another p/x\.py"):
        deb.unpack(wheel(tmp_path / "b.whl", {"p/x.py": b"2"}), tmp_path / "root")


def test_sources_and_the_tables_stay_outside_but_not_what_boards_are_flashed_with(
    deb: ModuleType, tmp_path: Path
) -> None:
    files = {
        "uvloop/loop.pyx": b"",
        "spark_ingest/__init__.py": b"",
        "gateway/flashing/nodes/firmware/tiny/main.c": b"",
        "gateway/__init__.py": b"",
        "x-1.data/scripts/x": b"",
    }
    deb.unpack(wheel(tmp_path / "a.whl", files), tmp_path / "root")
    found = {str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*.*")}
    assert found == {"gateway/__init__.py", "gateway/flashing/nodes/firmware/tiny/main.c"}


@pytest.mark.parametrize("name", ["preinst", "postinst", "prerm", "postrm", "rtupdate"])
def test_scripts_of_the_package_are_sound_shell(name: str) -> None:
    subprocess.run(["sh", "-n", str(SCRIPTS / name)], check=True)
    assert (SCRIPTS / name).read_text().startswith("#!/bin/sh\n")
    assert "\nset -e\n" in (SCRIPTS / name).read_text()


def test_an_unknown_architecture_is_wrong_usage() -> None:
    done = subprocess.run(
        [sys.executable, str(REPOSITORY / ".ci" / "deb.py"), "--arch", "vax"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "invalid choice: 'vax'" in done.stderr


def test_compiled_modules_are_inside_for_the_machine_that_compiled_them(
    deb: ModuleType, tmp_path: Path
) -> None:
    form, _ = found({})
    if form is not Form.COMPILED:
        pytest.skip(f"not run: {form.value}")
    deb.add_compiled(tmp_path, "vax")
    assert not list(tmp_path.iterdir())
    deb.add_compiled(tmp_path, deb.this_architecture())
    folder = tmp_path / "gateway/host/compiled_modules" / folder_of(PACKAGE).name
    assert names_in(folder) == names_in(folder_of(PACKAGE))
