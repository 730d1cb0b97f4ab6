"""This command as it can be typed here: what is printed as something to type must run as it stands.

`tidegate` where a shell finds this very program by that name; else the way it was called, such as
`.venv/bin/tidegate` in a clone. sudo looks into folders of the system alone, and root may have no
sudo at all.
"""

import os
import re
import sys
from pathlib import Path

from gateway.cli.verbs import VERBS

NAME = "tidegate"
# secure_path of Debian's sudo.
SUDO_LOOKS_IN = frozenset(
    map(Path, ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))
)
# `tidegate VERB`, but not at the beginning of an error, `tidegate VERB: `.
_COMMAND_IN_TEXT = re.compile(
    rf"(?P<sudo>\bsudo (?:-u \S+ )?)?(?<![\w/.-]){NAME} "
    rf"(?=(?:{'|'.join(verb.name for verb in VERBS)})\b(?!:))"
)
_SUDO = re.compile(r"\bsudo (?!-)")
_SUDO_AS = re.compile(r"\bsudo -u (\S+) ")


def runnable(text: str) -> str:
    """The same with every command in it as it can be typed."""
    if NAME in text:
        text = _COMMAND_IN_TEXT.sub(_as_typed, text)
    if "sudo " in text and _is_root_without_sudo():
        text = _SUDO.sub("", _SUDO_AS.sub(r"runuser -u \1 -- ", text))
    return text


def _as_typed(found: re.Match[str]) -> str:
    sudo = found["sudo"] or ""
    return f"{sudo}{this_command(by_sudo=bool(sudo))} "


def this_command(*, by_sudo: bool = False) -> str:
    called = sys.argv[0]
    if Path(called).name != NAME:
        return NAME
    import shlex

    found = _found(called)
    if found is None:
        return shlex.quote(called)
    return NAME if not by_sudo or found.parent in SUDO_LOOKS_IN else shlex.quote(str(found))


def _found(called: str) -> Path | None:
    """Where a shell finds this very program by its name."""
    import shutil  # and compression with it, which nothing else needs at a start

    found = shutil.which(NAME)
    try:
        return Path(found) if found is not None and Path(found).samefile(called) else None
    except OSError:
        return None


def _is_root_without_sudo() -> bool:
    import shutil

    return os.geteuid() == 0 and shutil.which("sudo") is None
