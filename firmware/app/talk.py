"""What a node says to its gateway in one wake, and hears: readings first, what else is due then.

With a session that the gateway knows, one reading costs one round trip: PUBLISH, PUBACK. All else
is not due in every wake: listening in each `listen_every`-th, the state when something changed or a
day has passed, the time once a day, an update when there is one.
"""

from binascii import crc32
from random import getrandbits
from struct import unpack_from

from . import senml
from .bounded import Bounded
from .link import FRAME_OCTETS, Link
from .log import DEBUG, ERROR, INFO
from .settings import RULES, change, save
from .state import State
from .version import NUMBER

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from ..mqttsn.cpython import const, ticks_diff, ticks_ms

from ..mqttsn import Client
from ..mqttsn.snapshot import put_back, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from ..loader.files import Files
    from ..loader.slots import Slots
    from .clock import Clock
    from .kept import Kept
    from .log import Log
    from .ota import Update
    from .settings import Settings
    from .store import Store
    from .watch import Watch

    class Radio(Protocol):
        """What is needed of the board."""

        def join(self, watch: Watch) -> None: ...
        def transport(self) -> Any: ...


STAMP = ">IHB"  # of a stored reading: seconds, era, number of records
STATE_EVERY_S = 86_400
ASK_AGAIN_WAKES = 32  # after a question that nobody answered
ANSWER_MAX = 100  # letters
CRASH_PATH = "/crash.txt"
STATE_OCTETS = 36  # of mqttsn.protect

_STAMP_OCTETS = const(7)
_JOIN_MS = const(12_000)
_SEND_MS = const(8_000)  # again with each reading that was acknowledged
_LISTEN_MS = const(5_000)
_ANSWER_MS = const(1_000)
_TIME = b"T"
_REFUSALS = (-2, -3)  # return codes of the gateway: invalid topic, not supported


class Talk:
    def __init__(
        self,
        settings: "Settings",
        kept: "Kept",
        clock: "Clock",
        slots: "Slots",
        watch: "Watch",
        log: "Log",
        files: "Files",
        update: "Update",
        secrets: "dict[str, Any]",
        is_safe: bool,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self._clock = clock
        self._slots = slots
        self._watch = watch
        self._log = log
        self._files = files
        self._update = update
        self._secrets = secrets
        self._is_safe = is_safe
        self._refused = ""  # what was wrong with the last settings
        self.heard = 0  # frames
        self.restarts = self._is_refused = False

    def run(self, board: "Radio", store: "Store | None", unsaved: list[bytes]) -> None:
        """`unsaved`: readings that the flash did not take; what is sent is removed.

        Raises OSError when the network, the gateway or the time for it ends.
        """
        settings, kept = self._settings, self._kept
        self._room = State() if self.is_state_due else None
        self._watch.step("join", _JOIN_MS)
        board.join(self._watch)
        inner, session = board.transport(), kept.session
        protection = None
        if "device_key" in self._secrets:
            from .protection import protected  # only who has a key needs it

            protection = inner = protected(inner, self._secrets, self._files, self._log)
            # In front of the session, which without it is another one at another address.
            session = session[STATE_OCTETS:] if protection.put_back(session) else b""
        transport: Any = Bounded(inner, self._watch)
        self._client = client = Client(transport, settings.id.encode(), FRAME_OCTETS)
        client.engine.retry_ms = settings.retry_ms
        put_back(client, session)
        self._link = Link(client, settings.topic, transport.publication)
        try:
            self._send_all(store, unsaved)
            self._listen()
            self._learn_time()
            self._take_commands()
            self._report(store)
            self._fetch()
            self._watch.step("rest", _LISTEN_MS)
            self._link.rest(settings.silence_s)
        finally:
            kept.session = take(client)
            if protection:
                kept.session = protection.take() + kept.session
            self.heard = transport.heard
            transport.close()
            self._take_commands()

    # Readings

    def _send_all(self, store: "Store | None", unsaved: list[bytes]) -> None:
        """A gateway or broker that refuses a reading hears all else; the reading stays."""
        try:
            self._send(store, unsaved)
        except OSError as error:
            if error.args[0] not in _REFUSALS:
                raise
            self._is_refused = True
            self._kept.trying = 0  # what is said next has its message id
            self._log(ERROR, f"the gateway refuses {self._settings.topic}: {error.args[0]}")

    def _send(self, store: "Store | None", unsaved: list[bytes]) -> None:
        self._watch.step("send", _SEND_MS)
        oldest = store.oldest() if store else None
        while store and oldest:
            sequence, reading = oldest
            payload = self._packed(sequence, reading)
            # With another age it is another message, which is no repeat of the one before: the
            # gateway may have that one, and the consumer tells by `seq` that it is one reading.
            check = crc32(payload)
            is_again = self._kept.trying == check
            self._kept.trying = check
            self._publish(payload, is_again)
            self._kept.trying = 0
            store.sent(sequence)
            self._log(DEBUG, f"sent {sequence}")
            self._watch.step("send", _SEND_MS)
            oldest = store.oldest()
        while unsaved:
            self._publish(self._packed(0, unsaved[0]), False)
            del unsaved[0]

    def _packed(self, sequence: int, reading: bytes) -> bytes:
        seconds, era, count = unpack_from(STAMP, reading)
        base_time = self._clock.base_time(seconds, era)
        name = self._settings.id + "/"
        return senml.pack(name, base_time, sequence, count, reading[_STAMP_OCTETS:])

    def _publish(self, payload: bytes, is_again: bool) -> None:
        self._client.publish(self._link.readings, payload, 1, again=is_again)
        self._slots.published()

    # What comes

    def _listen(self) -> None:
        kept = self._kept
        if kept.listen_in and not self._is_safe and not self._update.is_wanted:
            return
        self._watch.step("listen", _LISTEN_MS)
        self._link.listen(self._settings.silence_s, self._watch.left())
        kept.listen_in = self._settings.listen_every

    def _take_commands(self) -> None:
        """What came, whenever that was: it is acknowledged, and does not come again."""
        link = self._link
        self._take_settings()
        if link.update is not None:
            self._update.offered(link.update)
            link.update = None
        if link.restart is not None:
            self._take_restart(*link.restart)
            link.restart = None

    def _take_settings(self) -> None:
        link, settings = self._link, self._settings
        messages, link.settings = link.settings, []
        problems = change(self._files, settings, messages)
        if problems is None and not link.problems:
            return
        problems = (problems or []) + link.problems
        link.problems = []
        self._refused = ("refused: " + ", ".join(problems))[:ANSWER_MAX] if problems else "taken"
        self._log.level = settings.log_level
        self._log(INFO, "settings " + self._refused)
        self._kept.told = 0
        self._kept.listen_in = min(self._kept.listen_in, settings.listen_every)

    def _take_restart(self, message_id: int, is_repeat: bool) -> None:
        """Once for each command: its repeat, which comes when PUBACK was lost, is none.

        The gateway keeps message id and DUP over its own restarts and ours. Where the flash does
        not take the id there is no restart, because there might be no end of them.
        """
        if is_repeat and message_id == self._settings.restarted:
            return
        self._settings.restarted = message_id
        save(self._files, self._settings)
        self._log(INFO, "restart")
        self.restarts = True

    def _learn_time(self) -> None:
        kept = self._kept
        if not self._clock.is_due or kept.ask_in:
            return
        self._watch.step("time", _LISTEN_MS)
        kept.ask_in = ASK_AGAIN_WAKES
        question = _TIME + getrandbits(30).to_bytes(4, "big")
        answers: list[bytes] = []

        def came(answer: memoryview) -> None:
            if bytes(answer[: len(question)]) == question and len(answer) == len(question) + 8:
                answers.append(bytes(answer[len(question) :]))

        self._link.on_answer = came
        start = ticks_ms()
        self._link.ask(question)
        if self._link.wait(lambda: bool(answers), _ANSWER_MS):
            unix_ms = int.from_bytes(answers[0], "big")
            if self._clock.learn(unix_ms, ticks_diff(ticks_ms(), start)):
                kept.ask_in = 0

    # The node's state

    @property
    def is_state_due(self) -> bool:
        """Whether the state differs from the one last published, or that is long ago."""
        age_s = self._clock.seconds() - self._kept.told_at
        return self._kept.told != self._check() or age_s >= STATE_EVERY_S

    def _report(self, store: "Store | None") -> None:
        if self.is_state_due:
            self._watch.step("tell", _LISTEN_MS)
            try:
                self._client.publish(self._link.state, self._state(store), 1, retain=1)
            except OSError as error:
                if error.args[0] not in _REFUSALS:
                    raise
                self._log(ERROR, f"the gateway refuses the state: {error.args[0]}")
            self._kept.told, self._kept.told_at = self._check(), self._clock.seconds()

    def _check(self) -> int:
        essence = f"{NUMBER} {self._slots.name} {self._mode} {self._update.said} {self._is_refused}"
        essence += f" {self._update.is_possible} {self._settings.values()}"
        return crc32(essence.encode())

    @property
    def _mode(self) -> str:
        if self._is_safe:
            return "safe"
        return "trial" if self._slots.is_trial else "normal"

    def _state(self, store: "Store | None") -> "Any":
        slots = self._slots
        state = self._room or State()
        self._room = None
        state.put("app", NUMBER)
        state.put("slot", slots.name)
        state.put("mode", self._mode)
        state.put("died", slots.died)
        state.put("waiting", store.waiting if store else 0)
        state.put("dropped", store.dropped if store else 0)
        commands = list(RULES)
        commands.append("restart")
        if self._update.is_possible:
            commands.append("update")
        state.put("commands", commands)
        for name, value in self._settings.values().items():
            state.put(name, value)
        trouble = list(self._log.trouble)
        if self._is_safe:
            trouble.insert(0, self._crash())
        return state.finish(self._refused, self._update.said, trouble)

    def _crash(self) -> str:
        try:
            with self._files.open(CRASH_PATH, "rb") as file:
                lines: list[str] = file.read(1024).decode().strip().split("\n")
        except (OSError, ValueError):
            return "died without a word"
        return lines[-1][:80]

    # Updates

    def _fetch(self) -> None:
        """Never on trial: the other slot is what this one falls back to."""
        if not self._update.is_wanted or self._slots.is_trial:
            return
        self._watch.step("update", self._watch.budget())
        self.restarts = self._update.fetch(self._link, self._watch.left) or self.restarts
