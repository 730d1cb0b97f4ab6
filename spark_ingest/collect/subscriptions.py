"""Which topic filters the broker may hold for us: those of former runs too.

A session outlasts its collector, and with it each subscription; MQTT has no way to ask for them. So
they are in a file before they are made, and what the configuration names no more is found there.

    <lake>/subscriptions/<collector>.json     {"v": 1, "brokers": {"<broker> <client id>": {...}}}
    {"filters": ["$share/ingest/farm/#"], "is_whole": true}

`is_whole`: the session began with this file, so the broker holds nothing that is not in it. Of one
that is older (of a release without the file) what else it holds shows when it sends.

Rule 1: a filter is in the file before SUBSCRIBE, and until UNSUBACK, or until the broker has no
        session of ours.
Rule 2: a file that cannot be read or written stops no collector: the log says so.

Limit: BROKERS_MAX brokers, those that were used last.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from spark_ingest.segments.disk import Disk

FOLDER = "subscriptions"
VERSION = 1
BROKERS_MAX = 8

log = logging.getLogger("tidegate.ingest.collector")


class Subscriptions:
    def __init__(self, lake: Path, collector: str, session: str, wanted: Sequence[str]) -> None:
        """`session`: broker and client id. `wanted`: filters as SUBSCRIBE has them."""
        self._path = lake / FOLDER / f"{collector}.json"
        self._session = session
        self._disk = Disk()
        self._others: dict[str, object] = {}
        self._wanted = list(wanted)
        self._read()

    def _read(self) -> None:
        filters: list[str] = []
        self.is_whole = False
        try:
            brokers = dict(json.loads(self._path.read_bytes())["brokers"])
            known = brokers.pop(self._session, None)
            self._others = brokers
            if known is not None:
                filters, self.is_whole = [str(each) for each in known["filters"]], known["is_whole"]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("%s: %s; it is written again", self._path, error)
        self.former = tuple(each for each in filters if each not in self._wanted)

    def begin(self) -> None:
        """Rule 1: before the first SUBSCRIBE."""
        self._write()

    def ended(self, filters: Collection[str]) -> None:
        """The broker holds these no more."""
        self.former = tuple(each for each in self.former if each not in filters)
        self._write()

    def session_began(self) -> None:
        """The broker had no session of ours."""
        if self.former or not self.is_whole:
            self.former, self.is_whole = (), True
            self._write()

    def _write(self) -> None:
        ours = {"filters": [*self._wanted, *self.former], "is_whole": self.is_whole}
        brokers = [*self._others.items()][1 - BROKERS_MAX :]
        described = {"v": VERSION, "brokers": {**dict(brokers), self._session: ours}}
        try:
            self._disk.make_folder(self._path.parent)
            self._disk.replace(self._path, json.dumps(described).encode())
        except OSError as error:
            log.error("%s cannot be written: %s; topics that are taken out of collector.topics may "
                      "stay subscribed", self._path, error.strerror or error)  # fmt: skip
