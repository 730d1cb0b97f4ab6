"""Under which names the page answers.

A page of another site can make a browser believe that the site's name is this machine (DNS
rebinding), and would then read what this page shows and act as the user who is signed in on it.
What the browser cannot be made to change is the name in `Host`. So the page answers under
addresses, `localhost`, this machine's own name, alone or in `.local`, and the names in
`admin.hosts`; any other one hears 421. Who sends no Host is no browser. What machines ask for,
health and metrics, is answered under any name: there is nothing in it that an unknown peer could
use. With `*` in `admin.hosts` it answers under any name: where a proxy that asks who it is passes
on what it was asked for, and nothing else reaches the page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from ipaddress import ip_address

ANY_NAME = "*"
OF_MACHINES = frozenset({"/healthz", "/readyz", "/metrics"})
SHOWN_LENGTH_MAX = 100

_HOST = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]{1,5})?")


class Hosts:
    def __init__(self, names: Iterable[str] = ()) -> None:
        own = _plain(os.uname().nodename)
        first = own.partition(".")[0]
        self._names = {"localhost", own, first, f"{first}.local", *map(_plain, names)}
        self._is_any = ANY_NAME in self._names

    def objection(self, host: str | None, path: str) -> str | None:
        """Why a request with this Host is not answered, and what to do about it."""
        if host is None or path in OF_MACHINES or self._is_any or self._is_ours(host):
            return None
        name = "".join(one if one.isprintable() else "?" for one in host[:SHOWN_LENGTH_MAX])
        return (
            f"this page does not know itself as {name!r}: open it by its IP address, or add the "
            f"name to admin.hosts in the configuration"
        )

    def _is_ours(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        name = _plain(parts["six"] or parts["name"] or "")
        return name in self._names or name.endswith(".localhost") or _is_address(name)


def _plain(name: str) -> str:
    return name.casefold().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
