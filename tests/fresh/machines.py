"""Which machines there are, and what each is asked to do, in this order.

A step is a script of steps/, run by bash in a login shell of its user. It passes by exit code 0;
its last line that begins with `=> ` is what the table says of it, with `=> not run: ` why not.
"""

from __future__ import annotations

from dataclasses import dataclass

USER = "sensor"  # without sudo
# What a person has who clones: README asks for no more.
INSTALLED = ("git", "make", "python3", "ca-certificates")
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """`is_root`: for the administrator, also where the machine has a user of its own.
    `is_outside`: it is done on this machine, in the repository; an engine cannot run in a folder.
    """

    title: str
    script: str
    limit_s: float = 15 * MINUTE_S
    is_root: bool = False
    is_outside: bool = False
    only_quick: bool = False
    never_quick: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    title: str
    release: str
    user: str
    steps: tuple[Step, ...]
    architecture: str | None = None  # of this machine


CLONE = Step("`git clone`", "clone.sh")
ASK = Step("`make demo` says what the administrator must install", "ask.sh")
PRINTED = Step("the line that it printed, typed by root", "printed.sh", is_root=True)
DEMO = Step("`make demo`", "demo.sh")
TEST = Step("`make test`, another gateway on port 8080", "test.sh", 90 * MINUTE_S, never_quick=True)
QUICK = Step("`make quick`", "quick.sh", 30 * MINUTE_S, only_quick=True)
TOOLS = Step("`apt-get install pipx`", "tools.sh", is_root=True)
PIPX = Step("`pipx install .`, a gateway and sensors", "pipx.sh")
UV = Step("`uv tool install .`, a gateway and sensors", "uv.sh")
DEB = Step("`apt-get install ./tidegate.deb`, a gateway, sensors, `doctor`", "deb.sh", is_root=True)
HINTS = Step("what errors tell to type, typed", "hints.sh", is_root=True)
CONTAINER = Step("`podman build`, by the engine of the machine", "container.sh", is_outside=True)
ARM_DEMO = Step("`make demo`", "demo.sh", 60 * MINUTE_S)
ARM_TESTS = Step("tests of frames, sessions, journal", "parts.sh", 120 * MINUTE_S)

USER_STEPS = (CLONE, ASK, PRINTED, DEMO, TEST, QUICK, TOOLS, PIPX, UV, HINTS)
ROOT_STEPS = (CLONE, DEMO, TEST, QUICK, DEB, HINTS, CONTAINER)
ARM_STEPS = (CLONE, DEB, ARM_DEMO, ARM_TESTS)

MACHINES = (
    Machine("debian-12-user", "Debian 12, a user without sudo", "bookworm", USER, USER_STEPS),
    Machine("debian-13-user", "Debian 13, a user without sudo", "trixie", USER, USER_STEPS),
    Machine("debian-12-root", "Debian 12, root", "bookworm", "root", ROOT_STEPS),
    Machine("debian-13-root", "Debian 13, root", "trixie", "root", ROOT_STEPS),
    Machine("debian-12-arm64", "Debian 12, arm64 emulated", "bookworm", "root", ARM_STEPS, "arm64"),
    Machine("debian-12-armhf", "Debian 12, armhf emulated", "bookworm", "root", ARM_STEPS, "armhf"),
)
