"""The Unix socket of the admin server: who connects is known to the kernel, and needs no password.

The role follows from SO_PEERCRED: root and the gateway's own user are operators, members of a group
have the role of `admin.socket_role`, all others none. The groups of a peer come from the kernel
(SO_PEERGROUPS), so that no name service is asked. The file has mode 0660 and that group, if the
gateway may give it away; a folder that others cannot enter keeps them out as well.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.admin.http.listening import AdminError
from gateway.host.causes import brief

_SO_PEERGROUPS = 59  # Linux 4.13; Python has no name for it
_CREDENTIALS = struct.Struct("=iII")  # struct ucred of unix(7): pid, uid, gid
_GROUPS_BYTES_MAX = 65_536 * 4  # NGROUPS_MAX
PATH_BYTES_MAX = 107  # sun_path, with its end
NONE, VIEWER, OPERATOR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class LocalPeer:
    """A process on this machine. `role`: the number of a Role."""

    pid: int
    uid: int
    role: int


@dataclass(frozen=True, slots=True)
class LocalSocket:
    path: Path
    group: str
    group_role: int = VIEWER

    def listening(self) -> socket.socket:
        """In place of one that a former run left. Raises AdminError."""
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if not self._is_in_use():
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISSOCK(self.path.lstat().st_mode):
                        self.path.unlink()
            with short(self.path) as name:
                opened.bind(name)
            self.path.chmod(0o660)
            if (gid := self.group_id) is not None:
                with contextlib.suppress(PermissionError):
                    os.chown(self.path, -1, gid)
            opened.listen()
        except OSError as error:
            opened.close()
            raise AdminError(
                f"admin.socket {self.path} cannot be opened: {_why(error)}; set it to another "
                'path, or to "" for none'
            ) from error
        opened.setblocking(False)
        return opened

    @property
    def group_id(self) -> int | None:
        import grp  # once, at the start

        with contextlib.suppress(KeyError):
            return grp.getgrnam(self.group).gr_gid
        return None

    def _is_in_use(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, short(self.path) as name:
            asking.settimeout(1.0)
            return asking.connect_ex(name) in (0, errno.EAGAIN)


def peer_of(connection: socket.socket, group_id: int | None, group_role: int) -> LocalPeer:
    """Raises OSError."""
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(given)
    if uid in (0, os.geteuid()):
        return LocalPeer(pid, uid, OPERATOR)
    is_member = group_id is not None and group_id in (gid, *_groups(connection))
    return LocalPeer(pid, uid, group_role if is_member else NONE)


def _groups(connection: socket.socket) -> tuple[int, ...]:
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES_MAX)
    except OSError:  # an older kernel: the primary group counts
        return ()
    return struct.unpack(f"={len(found) // 4}I", found)


@contextmanager
def short(path: Path) -> Iterator[str]:
    """A name of at most 107 bytes for this path: by way of its folder. Raises OSError."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process listens there, or it is no socket"
    return brief(error)
