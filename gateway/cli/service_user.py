"""What the service's user may read, asked of the kernel as that user: root may read everything, and
what root finds right the service may be refused.
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gateway.cli.sources import USUAL_PATH
from gateway.config.credential import credential_of, named_files
from gateway.config.settings import Settings

SERVICE_USER = "tidegate"  # of the unit, and of what `tidegate unit --sysusers` writes
ASKED_S_MAX = 10.0


def refusals(settings: Settings, config: Path) -> Iterator[tuple[str, str, str]]:
    """Key, sentence and the command that repairs it, for the configuration of the service. None if
    this is another file, or this user is not root, or there is no such user.
    """
    if os.geteuid() != 0 or config.absolute() != USUAL_PATH:
        return
    try:
        user = pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return
    files = [("", config)]
    files += [
        (key, path)
        for key, path in named_files(settings).items()
        if credential_of(path) is None and path.exists()
    ]
    for key, path in files:
        hidden = _hidden(path, user)
        if hidden is not None:
            what = f"{key} {path}".strip()
            yield key, f"{what} cannot be read by the service's user {user.pw_name}", _fix(hidden)


def _hidden(path: Path, user: pwd.struct_passwd) -> Path | None:
    """The file, or the folder above it that the user may not enter; a link's own folders count."""
    whole = path.resolve()
    folders = (*reversed(path.absolute().parents), *reversed(whole.parents))
    for folder in dict.fromkeys(folders):  # mostly the same, and each is a program that is run
        if not _may(user, "-x", folder):
            return folder
    return None if _may(user, "-r", whole) else whole


def _may(user: pwd.struct_passwd, how: str, path: Path) -> bool:
    """True if it cannot be asked."""
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    try:
        done = subprocess.run(
            ["test", how, str(path)],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=groups,
            timeout=ASKED_S_MAX,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return True
    return done.returncode == 0


def _fix(path: Path) -> str:
    quoted = shlex.quote(str(path))
    if path.is_dir():
        return f"sudo chgrp {SERVICE_USER} {quoted} && sudo chmod g+x {quoted}"
    return f"sudo chgrp {SERVICE_USER} {quoted} && sudo chmod 0640 {quoted}"
