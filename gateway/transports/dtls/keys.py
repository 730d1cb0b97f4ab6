"""Which key a handshake is tried with, and keys that another program of the site has.

Rule 1: of a device that has two keys, as while one is rotated, the newest is tried first. If a
        handshake got as far as to be encrypted and did not come about, the next one of that name is
        tried with the other: with the wrong key it looks as if datagrams were lost.
Rule 2: the hook is asked in threads, HOOKS_MAX at once and each for HOOK_S_MAX; what it answered
        holds for a while, also that it knows no such name. A name that was asked for while all are
        busy is asked for again with the next handshake.
Rule 3: a key is in no text. What the hook says is not in the log, whatever it is.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Callable

from gateway.core.access.device_keys import (
    SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
    DeviceKey,
    DeviceKeys,
    sender_id_of,
)
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread

log = logging.getLogger("tidegate.dtls")

NAME_BYTES_MAX = 128
TRIED_MAX = 1024
HOOKS_MAX = 4
HOOK_S_MAX = 5.0
KEPT_MAX = 10_000
KNOWN_S = 300.0
UNKNOWN_S = 30.0
ANSWER_BYTES_MAX = 4096
EPOCHS_MAX = 2

# None begins with a hyphen: a command would take it for an option.
_NAME = re.compile(r"[^\x00-\x20\x7f-][^\x00-\x1f\x7f]*")


def name_of(identity: bytes) -> str | None:
    """As a text; None for one that no device has."""
    if not 0 < len(identity) <= NAME_BYTES_MAX:
        return None
    try:
        name = identity.decode()
    except UnicodeDecodeError:
        return None
    return name if _NAME.fullmatch(name) else None


class KeyChoice:
    """Which of its keys a name is tried with next, of the TRIED_MAX names that failed last."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, int] = OrderedDict()  # the epoch of the key

    def choose(self, keys: tuple[DeviceKey, ...]) -> DeviceKey | None:
        """`keys`: those of one name, the newest first."""
        if len(keys) < 2:
            return keys[0] if keys else None
        failed = self._failed.get(keys[0].name)
        return next((each for each in keys if each.epoch != failed), keys[0])

    def failed(self, key: DeviceKey) -> None:
        self._failed[key.name] = key.epoch
        self._failed.move_to_end(key.name)
        if len(self._failed) > TRIED_MAX:
            self._failed.popitem(last=False)


class KeyHook:
    """`hook`: a URL, to which `?identity=NAME` is added, or a command, to which the name is."""

    def __init__(self, hook: str, *, timeout_s: float = HOOK_S_MAX) -> None:
        self._hook = hook
        self._timeout_s = timeout_s
        self._threads = [SideThread(f"key-hook-{number}") for number in range(HOOKS_MAX)]
        self._kept: OrderedDict[str, tuple[float, tuple[DeviceKey, ...]]] = OrderedDict()
        self._under_way: set[str] = set()
        self._has_failed = False

    def known(self, name: str, now: float) -> tuple[DeviceKey, ...] | None:
        """What it answered of a name; None if it must be asked."""
        kept = self._kept.get(name)
        if kept is None or kept[0] <= now:
            return None
        return kept[1]

    async def ask(self, name: str, now: Callable[[], float]) -> bool:
        """Whether there is an answer: then it is `known`."""
        if name in self._under_way:
            return False
        thread = next((each for each in self._threads if not each.is_busy), None)
        if thread is None:
            return False
        self._under_way.add(name)
        try:
            answer = await thread.run(lambda: self._ask(name), self._timeout_s + 1)
            keys = keys_in(answer, name)
        except (BusyError, NoThreadError, OverdueError, OSError, ValueError) as error:
            self._say(type(error).__name__)
            return False
        finally:
            self._under_way.discard(name)
        self._has_failed = False
        self._kept[name] = now() + (KNOWN_S if keys else UNKNOWN_S), keys
        self._kept.move_to_end(name)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return True

    def forget(self) -> None:
        """All are asked for again."""
        self._kept.clear()

    def _say(self, why: str) -> None:
        """Once until it answers again."""
        if not self._has_failed:
            log.warning("dtls.key_hook does not answer as it should (%s)", why)
        self._has_failed = True

    def _ask(self, name: str) -> bytes:
        """In a thread. Raises OSError, ValueError."""
        if self._hook.startswith(("http://", "https://")):
            joint = "&" if "?" in self._hook else "?"
            url = f"{self._hook}{joint}{urllib.parse.urlencode({'identity': name})}"
            try:
                with urllib.request.urlopen(url, timeout=self._timeout_s) as answer:
                    return bytes(answer.read(ANSWER_BYTES_MAX))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return b""
                raise OSError(f"HTTP {error.code}") from None
        # Its own group: a hook that hangs is ended with what it started.
        with subprocess.Popen(
            [*shlex.split(self._hook), name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as asked:
            try:
                answer_bytes, _ = asked.communicate(timeout=self._timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(asked.pid, 9)
                raise OSError("timeout") from None
        if asked.returncode:
            raise OSError(f"exit code {asked.returncode}")
        return answer_bytes[:ANSWER_BYTES_MAX]


def keys_in(answer: bytes, name: str) -> tuple[DeviceKey, ...]:
    """One key a line in hexadecimal digits, the newest first; nothing for a name that is not known.
    Raises ValueError for anything else.
    """
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) > EPOCHS_MAX:
        raise ValueError("more keys than two")
    keys = []
    for number, line in enumerate(lines):
        secret = _unhexed(line)
        keys.append(DeviceKey(name, len(lines) - number, sender_id_of(name), secret))
    return DeviceKeys(keys).of_name(name)


def _unhexed(line: bytes) -> bytes:
    try:
        secret = bytes.fromhex(line.decode("ascii"))
    except ValueError:
        secret = b""
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise ValueError("no key in hexadecimal digits") from None
    return secret
