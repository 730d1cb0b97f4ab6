"""Who may look and who may act: users with passwords, sessions by cookie, tokens of programs.

- Passwords are hashes, verified by scrypt in a thread, one at a time, or the content of
  admin.password_file, compared by digest in constant time. None is kept.
- After ATTEMPTS_MAX wrong passwords in WINDOW_S from one address, ATTEMPTS_OF_USER_MAX for one user
  or ATTEMPTS_OF_ALL_MAX in all, passwords are not looked at until the window is over. An attempt
  counts before it is verified, so that many at once do not pass, and no more if the gateway was too
  busy to verify it: who asked has learnt nothing by it. An address from which this user has signed
  in before has only the first limit: else anyone could keep a user out.
- A session is a random cookie, valid for SESSION_S after it was used last and for SESSION_S_MAX in
  all, or until the gateway stops or the user's password or role is another one. Only its digest is
  kept. Of more than SESSIONS_MAX the one that was used the longest ago ends. Signing in ends the
  session that the browser had.
- What changes something in a session must carry the session's token, which only a page of this very
  origin can read; SameSite also keeps the cookie at home.
- Tokens of programs are 256 random bits: they need no limit of attempts.

Source of the numbers: OWASP's cheat sheets for authentication and session management.
"""

from __future__ import annotations

import asyncio
import enum
import hmac
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from gateway.admin.http.passwords import hash_token, is_password
from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread

ATTEMPTS_MAX = 5
ATTEMPTS_OF_USER_MAX = 15
ATTEMPTS_OF_ALL_MAX = 50
WINDOW_S = 60.0
HOSTS_MAX = 256  # whose attempts are counted apart; users are as many at most
KNOWN_MAX = 256  # pairs of user and address that have signed in
WAITING_MAX = 8  # attempts that wait for the one that is being verified
VERIFY_S_MAX = 4.0  # a connection is over after 5
SESSION_S = 3600.0
SESSION_S_MAX = 12 * 3600.0
SESSIONS_MAX = 16
COOKIE_BYTES = 32
OPERATOR = "tidegate"  # the user of admin.password_file


class Role(enum.IntEnum):
    """Each may do what those before it may."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class SignInError(Exception):
    """Why not, in a sentence. `wait_s`: how long no password is looked at."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _UnverifiedError(SignInError):
    """Nothing was said of the password."""


@dataclass(frozen=True, slots=True)
class User:
    """`secret`: a hash of scrypt, or the digest of a password."""

    role: Role
    secret: str | bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class Accounts:
    """`users` by name, `tokens` by hash. `anonymous`: the role of who has not signed in."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    anonymous: Role = Role.VIEWER


def accounts_of_password(password: bytes | None, anonymous: Role = Role.VIEWER) -> Accounts:
    """One operator, or none."""
    users = {} if password is None else {OPERATOR: user_of_password(password)}
    return Accounts(users, anonymous=anonymous)


def user_of_password(password: bytes) -> User:
    return User(Role.OPERATOR, sha256(password).digest())


@dataclass(slots=True)
class Session:
    """`cookie` is known to the browser alone: here only until it is sent."""

    cookie: str
    token: str  # what a request that changes something must carry
    user: str
    role: Role
    began: float
    used: float


class SignIn:
    def __init__(self, accounts: Accounts, now: Callable[[], float]) -> None:
        self.accounts = accounts
        self._now = now
        self._sessions: dict[bytes, Session] = {}  # by digest of the cookie
        self._of_host = Failures(ATTEMPTS_MAX)
        self._of_user = Failures(ATTEMPTS_OF_USER_MAX)
        self._of_all = Failures(ATTEMPTS_OF_ALL_MAX)
        self._known: dict[tuple[str, str], None] = {}
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._thread = SideThread("password")

    @property
    def is_possible(self) -> bool:
        return bool(self.accounts.users)

    def use(self, accounts: Accounts) -> None:
        """Others; who signed in by a password or with a role that is not so any more is out."""
        before, self.accounts = self.accounts, accounts
        for key, session in list(self._sessions.items()):
            if before.users.get(session.user) != accounts.users.get(session.user):
                del self._sessions[key]

    async def begin(
        self, user: str, password: str, host: str, former: str | None = None
    ) -> Session:
        """`former`: the cookie that the browser has. Raises SignInError."""
        if not self.is_possible:
            raise SignInError(
                "no password is set: see admin.password_file in the configuration; or make a user "
                "by `tidegate password`"
            )
        now = self._now()
        wait_s = self._wait_s(user, host, now)
        if wait_s > 0:
            raise SignInError(f"too many wrong passwords: wait {wait_s:.0f} s", wait_s)
        failures = ((self._of_host, host), (self._of_user, user), (self._of_all, ""))
        for each, key in failures:
            each.add(key, now)
        try:
            is_right = await self._is_right(user, password)
        except _UnverifiedError:
            _take_back(failures, now)
            raise
        if not is_right:
            raise SignInError("that is not the password")
        _take_back(failures, now)
        self._of_host.forget(host)
        self._known.pop((user, host), None)
        self._known[(user, host)] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self.end(former)
        return self._begun(user, now)

    def session_of(self, cookie: str | None) -> Session | None:
        """Whose cookie this is, if it is still good."""
        if not cookie or not self._sessions:
            return None  # the first digest of a process costs it half a megabyte
        key = _digest(cookie)
        session = self._sessions.get(key)
        if session is None:
            return None
        now = self._now()
        if now - session.used > SESSION_S or now - session.began > SESSION_S_MAX:
            del self._sessions[key]
            return None
        session.used = now
        return session

    def token_of(self, text: str) -> Token | None:
        """Of a program."""
        return self.accounts.tokens.get(hash_token(text))

    def end(self, cookie: str | None) -> None:
        if cookie:
            self._sessions.pop(_digest(cookie), None)

    def _begun(self, user: str, now: float) -> Session:
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[min(self._sessions, key=lambda each: self._sessions[each].used)]
        session = Session(
            cookie=secrets.token_urlsafe(COOKIE_BYTES),
            token=secrets.token_urlsafe(),
            user=user,
            role=self.accounts.users[user].role,
            began=now,
            used=now,
        )
        self._sessions[_digest(session.cookie)] = session
        return session

    async def _is_right(self, user: str, password: str) -> bool:
        """Raises _UnverifiedError when the machine, or those who sign in, are too busy for it."""
        account = self.accounts.users.get(user)
        secret = None if account is None else account.secret
        if isinstance(secret, bytes):
            return hmac.compare_digest(sha256(password.encode()).digest(), secret)
        if secret is None and not any(
            isinstance(one.secret, str) for one in self.accounts.users.values()
        ):
            return False  # the one user of all gateways has no secret name
        if self._waiting >= WAITING_MAX:
            raise _UnverifiedError("too many sign in at once: try it again", 1.0)
        self._waiting += 1
        try:
            async with self._lock:
                is_right = await self._thread.run(
                    lambda: is_password(password, secret), VERIFY_S_MAX
                )
        except (BusyError, OverdueError, NoThreadError):
            raise _UnverifiedError("this machine is too busy to verify a password", 1.0) from None
        finally:
            self._waiting -= 1
        # Meanwhile the user may be another one, or none.
        return is_right and self.accounts.users.get(user) == account

    def _wait_s(self, user: str, host: str, now: float) -> float:
        own_s = self._of_host.rest_s(host, now)
        if (user, host) in self._known:
            return own_s
        return max(own_s, self._of_user.rest_s(user, now), self._of_all.rest_s("", now))


class Failures:
    """When each of HOSTS_MAX keys failed last; of more the one that failed first is forgotten."""

    def __init__(self, attempts_max: int) -> None:
        self._attempts_max = attempts_max
        self._times: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, key: str, now: float) -> None:
        key = _shortened(key)
        if key not in self._times and len(self._times) >= HOSTS_MAX:
            del self._times[next(iter(self._times))]
        self._times.setdefault(key, deque(maxlen=self._attempts_max)).append(now)

    def take_back(self, key: str, now: float) -> None:
        times = self._times.get(_shortened(key))
        if times is not None and now in times:
            times.remove(now)

    def forget(self, key: str) -> None:
        self._times.pop(_shortened(key), None)

    def rest_s(self, key: str, now: float) -> float:
        """How long until the oldest of a full set is out of the window."""
        times = self._times.get(_shortened(key))
        if times is None or len(times) < self._attempts_max:
            return 0.0
        return max(0.0, times[0] + WINDOW_S - now)


def _take_back(failures: Iterable[tuple[Failures, str]], now: float) -> None:
    for each, key in failures:
        each.take_back(key, now)


def _shortened(key: str) -> str:
    """The name of a user may be long, and made up."""
    return key[:64]


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="replace")).digest()


def is_token_of(session: Session, token: str) -> bool:
    return hmac.compare_digest(session.token.encode(), token.encode(errors="replace"))
