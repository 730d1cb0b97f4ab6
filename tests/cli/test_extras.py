"""What is said where the packages of an extra are missing: a command that installs them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.storage.keys.file import change_keys
from gateway.storage.keys.records import NewKey

REPOSITORY = Path(__file__).parents[2]
# The program, as on a machine that has not got the package.
WITHOUT = """import sys
sys.modules[{package!r}] = None
from gateway.__main__ import main
sys.exit(main())
"""
CASES = {
    "security": ("cryptography", ["check"]),
    "dtls": ("OpenSSL", ["run", "--set", "udp.0.security=dtls-psk"]),
    "qr": ("segno", ["keys", "show", "tank", "--qr"]),
}


def brought_by(extra: str) -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return sorted(project["project"]["optional-dependencies"][extra])


def normal(requirement: str) -> str:
    name = requirement.rstrip("0123456789.,<>=")
    return f"{name} {sorted(requirement.removeprefix(name).split(','))}"


@pytest.mark.parametrize("extra", CASES)
def test_the_command_that_is_printed_installs_what_is_missing(extra: str, tmp_path: Path) -> None:
    package, arguments = CASES[extra]
    change_keys(
        tmp_path / "device.keys",
        lambda before: before.added([NewKey(name="tank", secret=bytes(range(16)))], 0.0),
    )
    file = tmp_path / "config.toml"
    file.write_text(
        f'[gateway]\nstate_dir = "{tmp_path}"\n[admin]\nlisten = ""\n'
        '[[udp]]\nlisten = "127.0.0.1:0"\n[protection]\nschemes = ["aes-ccm-64"]\n'
    )
    given = ["--config", str(file)]
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package), *arguments, *given],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    said = (ended.stdout + ended.stderr).partition("with:")[2].split("\n")
    command = shlex.split(next(each for each in said if each.strip()))
    packages = [normal(each) for each in brought_by(extra)]
    assert sorted(map(normal, command[-len(packages) :])) == packages, ended.stderr
    if shutil.which(command[0]) is None:
        pytest.skip(f"not tried: {command[0]} is not installed")
    # As it is typed, but for the index: here the packages are there.
    tried = [*command, "--dry-run", "--no-index", "--no-deps"]
    done = subprocess.run(tried, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_gateway_says_to_install_is_in_the_lock_file() -> None:
    script = (REPOSITORY / ".ci" / "lock.sh").read_text(encoding="utf-8")
    for extra in CASES:
        assert f"--extra {extra} " in script
