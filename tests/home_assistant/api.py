"""What Home Assistant shows, asked by its API: HTTP, and its websocket for registries and
statistics. A device and an entity are named as its user sees them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.05
MESSAGE_BYTES_MAX = 64 * 1024 * 1024

Found = TypeVar("Found")


class NotSoError(AssertionError):
    """It was not so in time."""


def eventually(
    look: Callable[[], Found | None],
    what: str,
    timeout_s: float = TIMEOUT_S,
    interval_s: float = POLL_INTERVAL_S,
) -> Found:
    """The first answer that is neither None nor False. Raises NotSoError."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise NotSoError(f"not within {timeout_s:g} s: {what}")
        time.sleep(interval_s)


@dataclass
class Api:
    url: str
    token: str = ""
    _socket: ClientConnection | None = None
    _open: ExitStack = field(default_factory=ExitStack)
    _number: int = 0

    # The two ways

    def http(self, path: str, body: object = None, *, form: bool = False) -> Any:
        """GET, or POST of a body, as JSON or as a form."""
        headers = {"Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if form:
            assert isinstance(body, dict)
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            data = urlencode(body).encode()
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        with urlopen(Request(f"{self.url}{path}", data, headers), timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    def ask(self, kind: str, **members: object) -> Any:
        """A command of the websocket. Raises AssertionError when it is refused."""
        socket = self._connected()
        self._number += 1
        socket.send(json.dumps({"id": self._number, "type": kind, **members}))
        answer = json.loads(socket.recv(TIMEOUT_S))
        assert answer["id"] == self._number, answer
        assert answer["success"], answer
        return answer["result"]

    def _connected(self) -> ClientConnection:
        if self._socket is None:
            from websockets.sync.client import connect  # not there on 32-bit machines

            url = self.url.replace("http:", "ws:", 1) + "/api/websocket"
            self._socket = self._open.enter_context(connect(url, max_size=MESSAGE_BYTES_MAX))
            self._socket.recv(TIMEOUT_S)  # it asks for what follows
            self._socket.send(json.dumps({"type": "auth", "access_token": self.token}))
            assert json.loads(self._socket.recv(TIMEOUT_S))["type"] == "auth_ok"
        return self._socket

    def close(self) -> None:
        self._socket, self._number = None, 0
        self._open.close()

    # Devices and entities

    def devices(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.ask("config/device_registry/list")
        return listed

    def device(self, name: str) -> dict[str, Any] | None:
        """None without one; more than one of a name is an error."""
        found = [each for each in self.devices() if each["name"] == name]
        assert len(found) < 2, f"{len(found)} devices {name}"
        return found[0] if found else None

    def entities(self, device: str) -> dict[str, dict[str, Any]]:
        """Of a device, by their names; without those that are disabled."""
        own = self.entity_list(device)
        named = {each["original_name"]: each for each in own if each["disabled_by"] is None}
        assert len(named) == len([each for each in own if each["disabled_by"] is None]), own
        return named

    def entity_list(self, device: str) -> list[dict[str, Any]]:
        """Of a device, as they are registered; several may have one name."""
        known = self.device(device)
        listed = self.ask("config/entity_registry/list") if known is not None else []
        return [each for each in listed if known is not None and each["device_id"] == known["id"]]

    def entity_id(self, device: str, name: str) -> str:
        """Raises KeyError without it."""
        found: str = self.entities(device)[name]["entity_id"]
        return found

    # States

    def state(self, device: str, name: str) -> dict[str, Any] | None:
        """With attributes; None without the entity."""
        found = self.entities(device).get(name)
        return None if found is None else self.states().get(found["entity_id"])

    def states(self) -> dict[str, dict[str, Any]]:
        return {each["entity_id"]: each for each in self.http("/api/states")}

    def shows(self, device: str, /, **wanted: str) -> None:
        """Until the entities have these states; `_` in a name stands for a space.

        Raises NotSoError with what is shown instead.
        """
        expected = {name.replace("_", " "): state for name, state in wanted.items()}

        def seen() -> dict[str, str | None]:
            entities, states = self.entities(device), self.states()
            ids = {name: entities.get(name, {}).get("entity_id", "") for name in expected}
            return {name: states.get(one, {}).get("state") for name, one in ids.items()}

        try:
            eventually(lambda: seen() == expected, f"{device}: {expected}")
        except NotSoError as error:
            error.add_note(f"it shows {seen()}")
            raise

    # Actions

    def act(self, device: str, name: str, action: str, **given: object) -> None:
        """Call an action of an entity, such as `turn_on`, as a button of its page does."""
        entity_id = self.entity_id(device, name)
        domain = entity_id.partition(".")[0]
        self.http(f"/api/services/{domain}/{action}", {"entity_id": entity_id, **given})

    def triggers(self, device: str) -> list[dict[str, Any]]:
        """What an automation can refer to, as its editor lists it; of MQTT alone."""
        known = self.device(device)
        listed: list[dict[str, Any]] = []
        if known is not None:
            listed = self.ask("device_automation/trigger/list", device_id=known["id"])
        return [each for each in listed if each["domain"] == "mqtt"]

    def is_triggered(self, trigger: dict[str, Any], by: Callable[[], None]) -> bool:
        """Whether an automation with this trigger would run."""
        self.ask("subscribe_trigger", trigger=trigger)
        by()
        try:
            return bool(json.loads(self._connected().recv(TIMEOUT_S))["type"] == "event")
        except TimeoutError:
            return False
        finally:
            self.close()  # the subscription ends with it

    # The past

    def history(self, entity_id: str, since: datetime) -> list[str]:
        """The states, in order; a state that is repeated counts once."""
        return [state for state, _ in self._past(entity_id, since)]

    def changes(self, entity_id: str, since: datetime) -> list[float]:
        """When it became each of these, in seconds since 1970."""
        return [at for _, at in self._past(entity_id, since)]

    def _past(self, entity_id: str, since: datetime) -> list[tuple[str, float]]:
        options = f"filter_entity_id={entity_id}&minimal_response&no_attributes"
        found = self.http(f"/api/history/period/{quote(since.isoformat())}?{options}")
        past = [
            (each["state"], datetime.fromisoformat(each["last_changed"]).timestamp())
            for each in (found[0] if found else [])
        ]
        return [each for n, each in enumerate(past) if n == 0 or past[n - 1][0] != each[0]]

    def statistics(self, entity_id: str) -> list[dict[str, Any]]:
        """Of five minutes each, of all that were compiled; the last ones are made for it."""
        self.http("/api/services/compile_statistics/now", {})
        found: dict[str, list[dict[str, Any]]] = self.ask(
            "recorder/statistics_during_period",
            start_time="2020-01-01T00:00:00+00:00",
            statistic_ids=[entity_id],
            period="5minute",
        )
        return found.get(entity_id, [])

    def statistics_issues(self, entity_id: str) -> list[str]:
        """What Home Assistant complains of, as its page of statistics shows it."""
        self.http("/api/services/compile_statistics/now", {})
        found: dict[str, list[dict[str, Any]]] = self.ask("recorder/validate_statistics")
        return [each["type"] for each in found.get(entity_id, [])]


def now() -> datetime:
    return datetime.now(UTC)
