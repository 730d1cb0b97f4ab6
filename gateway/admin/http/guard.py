"""Who asks, and whether this one may: the role of each request, before it is answered.

A request is one of a program with a token (`Authorization: Bearer`), of a user with a session
(cookie), of a process on this machine (Unix socket, known by SO_PEERCRED), or anonymous. Only the
session is something that a browser adds by itself, so only it needs a token against forged
requests. A token that is not known is refused even where no role is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from microdot import Request, Response

from gateway.admin.http.connections import LocalPeer
from gateway.admin.http.responses import RefusedError, Responder
from gateway.admin.http.sign_in import Role, Session, SignIn, is_token_of

TOKEN_HEADER = "X-Tidegate-Token"
BEARER = "bearer "
# What browsers of today say of a request that another site caused.
SAME_SITES = ("same-origin", "none")


@dataclass(frozen=True, slots=True)
class Who:
    """`name` as the audit log has it: `user:anna`, `token:prometheus`, `uid:1000`, `anonymous`.
    `place`: address, or `unix pid 17`.
    """

    name: str
    role: Role
    place: str
    session: Session | None = None


class Guard:
    def __init__(self, sign_in: SignIn, port: Callable[[], int], *, is_tls: bool) -> None:
        """`port`: cookies know no ports, and two gateways may be on one machine."""
        self.sign_in = sign_in
        self._port = port
        self.is_tls = is_tls

    @property
    def cookie_name(self) -> str:
        """With the prefix a browser takes it over TLS alone, for this host alone and for /."""
        return f"{'__Host-' if self.is_tls else ''}tidegate_{self._port()}"

    def cookie(self, value: str, age_s: int) -> str:
        secure = "; Secure" if self.is_tls else ""
        attributes = f"Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"
        return f"{self.cookie_name}={value}; {attributes}"

    def who(self, request: Request) -> Who:
        """Raises RefusedError for a token that is not known."""
        peer: LocalPeer | None = getattr(request.g, "local", None)
        if peer is not None:
            return Who(f"uid:{peer.uid}", Role(peer.role), f"unix pid {peer.pid}")
        host = str(request.client_addr[0])
        given = request.headers.get("Authorization", "")
        if given[: len(BEARER)].lower() == BEARER:
            token = self.sign_in.token_of(given[len(BEARER) :].strip())
            if token is None:
                raise _unauthorized("this token is not known")
            return Who(f"token:{token.name}", token.role, host)
        session = self.sign_in.session_of(request.cookies.get(self.cookie_name))
        if session is not None:
            return Who(f"user:{session.user}", session.role, host, session)
        return Who("anonymous", self.sign_in.accounts.anonymous, host)

    def needs(self, role: Role, answer: Responder) -> Responder:
        async def answering(request: Request) -> Response:
            self.require(request, role)
            return await answer(request)

        return answering

    def require(self, request: Request, role: Role) -> Who:
        """Raises RefusedError."""
        who = self.who(request)
        if who.role >= role:
            return who
        if who.name == "anonymous":
            raise _unauthorized("sign in first")
        raise RefusedError(HTTPStatus.FORBIDDEN, f"for an {role.word} only; you are {who.name}")

    def require_change(self, request: Request, role: Role) -> Who:
        """The same for a request that changes something. Raises RefusedError."""
        self.refuse_foreign(request)
        who = self.require(request, role)
        token = request.headers.get(TOKEN_HEADER, "")
        if who.session is not None and not is_token_of(who.session, token):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"{TOKEN_HEADER} is missing or another's")
        return who

    def refuse_foreign(self, request: Request) -> None:
        """Browsers say where a POST comes from; who says nothing has no browser's cookies."""
        origin = request.headers.get("Origin")
        host = request.headers.get("Host", "")
        if origin is not None and (not host or origin.partition("://")[2] != host):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"not from {origin[:100]}")
        if request.headers.get("Sec-Fetch-Site", "none") not in SAME_SITES:
            raise RefusedError(HTTPStatus.FORBIDDEN, "not from another site")
        kind = request.headers.get("Content-Type", "")
        if request.method == "POST" and not kind.startswith("application/json"):
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "only application/json")


def _unauthorized(message: str) -> RefusedError:
    return RefusedError(
        HTTPStatus.UNAUTHORIZED, message, {"WWW-Authenticate": 'Bearer realm="tidegate"'}
    )
