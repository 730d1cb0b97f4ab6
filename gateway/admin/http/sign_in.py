"""Who may act: one password for all, sessions by cookie, a token against forged requests.

- The password stands in a file. It is compared by digest in constant time, and never kept.
- ATTEMPTS_MAX wrong passwords from one address in WINDOW_S, or ATTEMPTS_OF_ALL_MAX from all, and
  nobody's is looked at until the window is over; who has a session keeps it meanwhile.
- A session is a random cookie, valid for SESSION_S after it was used last and for SESSION_S_MAX in
  all, or until the gateway stops. Of more than SESSIONS_MAX the one that was used the longest ago
  ends.
- What changes something must carry the session's token, which only a page of this very origin can
  read; SameSite also keeps the cookie at home.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

ATTEMPTS_MAX = 5
ATTEMPTS_OF_ALL_MAX = 50
WINDOW_S = 60.0
HOSTS_MAX = 256  # whose attempts are counted apart
SESSION_S = 3600.0
SESSION_S_MAX = 12 * 3600.0
SESSIONS_MAX = 16
TOKEN_BYTES = 32


class SignInError(Exception):
    """Why not, in a sentence. `wait_s`: how long nobody's password is looked at."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(slots=True)
class Session:
    cookie: str
    token: str  # what a request that changes something must carry
    began: float
    used: float


@dataclass(slots=True)
class SignIn:
    """`password` is None where none is set: then nobody signs in, and nothing can be changed."""

    password: bytes | None
    now: Callable[[], float]
    _digest: bytes = field(init=False, default=b"")
    _sessions: dict[str, Session] = field(init=False, default_factory=dict)
    _failures: dict[str, deque[float]] = field(init=False, default_factory=dict)
    _failures_of_all: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self._failures_of_all = deque(maxlen=ATTEMPTS_OF_ALL_MAX)
        self.change(self.password)

    def change(self, password: bytes | None) -> None:
        """Another password; those who signed in by the former one are signed out."""
        self._sessions.clear()
        self._digest = b"" if password is None else sha256(password).digest()
        self.password = None if password is None else b""

    @property
    def is_possible(self) -> bool:
        return self.password is not None

    def begin(self, password: str, host: str) -> Session:
        """Raises SignInError."""
        if not self.is_possible:
            raise SignInError("no password is set: see admin.password_file in the configuration")
        now = self.now()
        wait_s = self._wait_s(host, now)
        if wait_s > 0:
            raise SignInError(f"too many wrong passwords: wait {wait_s:.0f} s", wait_s)
        if not hmac.compare_digest(sha256(password.encode()).digest(), self._digest):
            self._note_failure(host, now)
            raise SignInError("that is not the password")
        self._failures.pop(host, None)
        if len(self._sessions) >= SESSIONS_MAX:
            oldest = min(self._sessions.values(), key=lambda each: each.used)
            del self._sessions[oldest.cookie]
        session = Session(
            cookie=secrets.token_urlsafe(TOKEN_BYTES),
            token=secrets.token_urlsafe(),
            began=now,
            used=now,
        )
        self._sessions[session.cookie] = session
        return session

    def session_of(self, cookie: str | None) -> Session | None:
        """Whose cookie this is, if it is still good."""
        session = self._sessions.get(cookie or "")
        if session is None:
            return None
        now = self.now()
        if now - session.used > SESSION_S or now - session.began > SESSION_S_MAX:
            del self._sessions[session.cookie]
            return None
        session.used = now
        return session

    def end(self, session: Session) -> None:
        self._sessions.pop(session.cookie, None)

    def _note_failure(self, host: str, now: float) -> None:
        if len(self._failures) >= HOSTS_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures.setdefault(host, deque(maxlen=ATTEMPTS_MAX)).append(now)
        self._failures_of_all.append(now)

    def _wait_s(self, host: str, now: float) -> float:
        own = self._failures.get(host, deque(maxlen=ATTEMPTS_MAX))
        return max(_rest_s(own, now), _rest_s(self._failures_of_all, now))


def _rest_s(failures: deque[float], now: float) -> float:
    """How long until the oldest of a full set is out of the window."""
    is_full = len(failures) == failures.maxlen
    return max(0.0, failures[0] + WINDOW_S - now) if is_full else 0.0


def is_token_of(session: Session, token: str) -> bool:
    return hmac.compare_digest(session.token.encode(), token.encode())
