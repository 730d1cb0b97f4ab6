"""How this Tidegate was installed, and the commands that belong to that way.

What is printed as something to type must work where it was printed. `pip` is not found in an
environment of uv, is refused by Debian's own Python, and does not reach the one of pipx; nothing of
ours is on an index, so packages are named themselves, and Tidegate by the file it came from.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "tidegate"
_EXTRA = re.compile(r"(?:\s+and)?\s*\(?extra == ['\"]([a-z]+)['\"]\)?")
_PIPX_HOMES = (Path.home() / ".local/share/pipx", Path.home() / ".local/pipx")
IMAGE_MARK = ".tidegate-image"  # in the environment that Containerfile makes
DEBIAN_PLACE = Path("/usr/lib/tidegate")  # .ci/deb/launcher
BESIDE_DEBIAN_PLACE = Path("/usr/local/lib/tidegate")  # .ci/deb/launcher
# What Debian has of an extra, in each release for which there is a package of ours.
_DEBIAN_PACKAGES = {"security": "python3-cryptography"}
# Where the service may look, which is below no home (docs/service.md).
FOR_ALL = Path("/opt/tidegate")
BIN_FOR_ALL = Path("/usr/local/bin")


class Way(Enum):
    CLONE = "clone"
    PIPX = "pipx"
    UV = "uv tool"
    PIP = "pip"
    DEBIAN = "Debian package"
    IMAGE = "container image"


@dataclass(frozen=True, slots=True)
class Installation:
    """`prefix` is its environment, `place` the folder that holds the package `gateway`."""

    prefix: Path
    base_prefix: Path
    place: Path
    python: Path

    @classmethod
    def this(cls) -> Installation:
        place = Path(__file__).parents[2]
        return cls(Path(sys.prefix), Path(sys.base_prefix), place, Path(sys.executable))

    @property
    def way(self) -> Way:
        if (self.prefix / IMAGE_MARK).exists():
            return Way.IMAGE
        if (self.prefix / "pipx_metadata.json").exists():
            return Way.PIPX
        if (self.prefix / "uv-receipt.toml").exists():
            return Way.UV
        if self.place == DEBIAN_PLACE:
            return Way.DEBIAN
        is_clone = (self.place / ".ci" / "setup.sh").exists()
        is_its_own = self.prefix.is_relative_to(self.place) or not self._is_environment
        return Way.CLONE if is_clone and is_its_own else Way.PIP

    @property
    def _is_environment(self) -> bool:
        return self.prefix != self.base_prefix

    @property
    def is_in_a_home(self) -> bool:
        """The service cannot start what is, or what its Python is: ProtectHome, and the rights."""
        return any(map(is_in_a_home, (self.prefix, self.place, self.base_prefix, self.python)))

    def adding(self, extra: str, *then: str) -> str:
        """The command that adds what the extra brings. `then`: words behind `tidegate`, for the
        ways in which another command runs it afterwards.
        """
        packages = shlex.join(_requirements(extra) or [f"{NAME}[{extra}]"])
        match self.way:
            case Way.CLONE if not self._is_environment:
                place = shlex.quote(str(self.place))
                return f"make -C {place} setup && {_joined(f'{place}/.venv/bin/{NAME}', *then)}"
            case Way.IMAGE:
                return self._in_an_image(packages)
            case Way.DEBIAN if extra in _DEBIAN_PACKAGES:
                return f"sudo apt-get install -y {_DEBIAN_PACKAGES[extra]}"
            case Way.DEBIAN if not then:
                return _beside_the_package(packages)
            case _ if not self._is_environment:
                return _in_an_environment(self.place, packages, *then)
            case _:
                return f"{self._installer()} {packages}"

    def adding_program(self, package: str) -> str:
        """The command that brings a program that is a Python package, and a package of Debian's
        under the same name.
        """
        if self.way is Way.IMAGE:
            return self._in_an_image(package)
        if self._is_environment:
            return f"{self._installer()} {package}"
        return f"sudo apt-get install -y {package}"

    def _in_an_image(self, packages: str) -> str:
        """On the host, of the image that is called so (docs/service.md)."""
        pip = f"{self.base_prefix}/bin/python3 -m pip --python {self.python}"  # ours has none
        lines = (f"FROM {NAME}", "USER root", f"RUN {pip} install {packages}", f"USER {NAME}")
        return f"printf '%s\\n' {shlex.join(lines)} | podman build -t {NAME} -"

    def _installer(self) -> str:
        is_ours = os.access(sysconfig.get_path("purelib"), os.W_OK)
        sudo = "" if is_ours else "sudo "
        if self.way is Way.PIPX:
            home = self.prefix.parents[1]
            env = "" if home in _PIPX_HOMES else f"env PIPX_HOME={shlex.quote(str(home))} "
            return f"{sudo}{env}{_program('pipx', is_ours)} inject {shlex.quote(self.prefix.name)}"
        python = shlex.quote(str(self.python))
        if _has_pip():
            return f"{sudo}{python} -m pip install"
        return f"{sudo}{_program('uv', is_ours)} pip install --python {python}"

    def for_all_users(self) -> str:
        """The command that installs this release where a service may start it."""
        source = shlex.quote(_source())
        link = f"sudo ln -sf {FOR_ALL}/bin/{NAME} {BIN_FOR_ALL}/{NAME}"
        match self.way:
            case Way.UV:
                return (
                    f"sudo env UV_TOOL_DIR={FOR_ALL} UV_PYTHON_INSTALL_DIR={FOR_ALL}/python "
                    f'UV_TOOL_BIN_DIR={BIN_FOR_ALL} "$(command -v uv)" tool install {source}'
                )
            case Way.PIPX:
                return (
                    f"sudo env PIPX_HOME={FOR_ALL} PIPX_BIN_DIR={BIN_FOR_ALL} "
                    f'"$(command -v pipx)" install {source}'
                )
            case _:
                return (
                    "sudo apt-get install -y python3-venv && "
                    f"sudo python3 -m venv {FOR_ALL} && "
                    f"sudo {FOR_ALL}/bin/pip install {source} && {link}"
                )


def is_in_a_home(path: Path) -> bool:
    """Or leads there."""
    homes = {Path("/home"), Path("/root"), Path("/run/user"), Path.home()} - {Path("/")}
    return any(each.is_relative_to(home) for each in (path, path.resolve()) for home in homes)


def _beside_the_package(packages: str) -> str:
    """Where the service looks as well, and no other program: those of Debian are too old for DTLS
    in its older releases. Again after an upgrade to another Python.
    """
    return (
        "sudo apt-get install -y python3-pip && sudo python3 -m pip install --upgrade "
        f"--target {BESIDE_DEBIAN_PLACE} {packages}"
    )


def _in_an_environment(place: Path, packages: str, *then: str) -> str:
    """Beside a Python that is the system's, where nothing is to be installed."""
    folder = f"~/.local/share/{NAME}"
    run = _joined(f"PYTHONPATH={shlex.quote(str(place))} {folder}/bin/python -m gateway", *then)
    return (
        f"sudo apt-get install -y python3-venv && python3 -m venv {folder} && "
        f"{folder}/bin/pip install {packages} && {run}"
    )


def _program(name: str, is_ours: bool) -> str:
    """Root's PATH has not what is in a home."""
    return name if is_ours else f'"$(command -v {name})"'


def _joined(command: str, *words: str) -> str:
    return " ".join([command, *map(shlex.quote, words)])


def _has_pip() -> bool:
    from importlib.util import find_spec

    return find_spec("pip") is not None


def _distribution() -> Distribution | None:
    try:
        return Distribution.from_name(NAME)
    except PackageNotFoundError:
        return None


def _requirements(extra: str) -> list[str]:
    """What the extra brings, with what of its markers is not about extras."""
    found = _distribution()
    return [] if found is None else list(_of_extra(found.requires or (), extra))


def _of_extra(requirements: list[str] | tuple[str, ...], extra: str) -> Iterator[str]:
    for each in requirements:
        package, _, marker = each.partition(";")
        named = _EXTRA.search(marker)
        if named is not None and named[1] == extra:
            rest = _EXTRA.sub("", marker).strip()
            yield f"{package.strip()}; {rest}" if rest else package.strip()


def _source() -> str:
    """What was installed: a wheel, a clone; or by its name and release, if from an index."""
    found = _distribution()
    if found is None:
        return str(Path(__file__).parents[2])
    try:
        url = str(json.loads(found.read_text("direct_url.json") or "{}").get("url", ""))
    except ValueError:
        url = ""
    if url.startswith("file://"):
        return unquote(urlsplit(url).path)
    return url or f"{NAME}=={found.version}"
