"""The file for containers, as far as it can be held against this repository without an engine."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
CONTAINERFILE = REPOSITORY / "Containerfile"
KNOWN = frozenset(
    [
        "FROM",
        "WORKDIR",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    ]
)


def instructions() -> list[tuple[str, str]]:
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.partition(" ")[::2] for line in joined.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, rest in found]


def test_all_that_it_copies_is_there_and_not_ignored() -> None:
    ignored = (REPOSITORY / ".containerignore").read_text().splitlines()
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            for source in shlex.split(rest)[:-1]:
                assert (REPOSITORY / source).exists(), source
                assert f"!{source}" in ignored
    assert (REPOSITORY / ".dockerignore").read_text().splitlines() == ignored


def test_what_the_wheel_is_built_of_is_copied() -> None:
    copied = [rest for name, rest in instructions() if name == "COPY"]
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    packages = re.search(r"(?m)^packages = \[(.*)\]", pyproject)
    assert packages is not None
    for package in re.findall(r'"(\w+)"', packages[1]):
        assert f"{package} {package}" in copied
    assert any("README.md LICENSE" in each for each in copied)
    assert "firmware firmware" in copied, "what the wheel takes from elsewhere"
    assert ".ci/board.py .ci/" in copied, "what is asked before it is built"


def test_all_that_it_fetches_has_a_hash() -> None:
    (commands,) = (
        rest.split("&&") for name, rest in instructions() if name == "RUN" and "pip" in rest
    )
    fetching = [each for each in commands if "pip install" in each and "dist/*.whl" not in each]
    locks = [re.fullmatch(r".* --require-hashes -r (\S+)", each.strip()) for each in fetching]
    assert [match and match[1] for match in locks] == [
        "requirements-build.lock",
        "requirements-gateway.lock",
    ]
    environment = shlex.split(next(rest for name, rest in instructions() if name == "ENV"))
    assert {"PIP_NO_DEPS=1", "PIP_ONLY_BINARY=:all:"} <= set(environment)


def test_it_runs_as_a_user_of_its_own_and_listens_where_the_gateway_does() -> None:
    found = dict(instructions())
    assert set(found) <= KNOWN
    assert found["USER"] == "tidegate"
    assert found["EXPOSE"] == "1883/udp 8080/tcp"
    assert found["VOLUME"] == "/var/lib/tidegate"
    assert (found["ENTRYPOINT"], found["CMD"]) == ('["tidegate"]', '["run"]')
    assert found["HEALTHCHECK"].endswith('CMD ["tidegate", "health"]')
