"""Passwords and tokens as they are stored: hashed, in the form of one line of the configuration.

- A password by scrypt with N = 2^14, r = 8, p = 5: 16 MiB of memory, one of the equal choices of
  OWASP's password storage guidance, and what a board of 512 MiB can spare. The cost stands in the
  hash, so that it can be raised.
- A token is 32 random bytes, which nothing guesses: SHA-256 is enough, and costs a request nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

LOG_N, R, P = 14, 8, 5
SALT_BYTES = 16
HASH_BYTES = 24
TOKEN_BYTES = 32
TOKEN_PREFIX = "tg_"  # by which scanners of repositories find one that was published
MEMORY_BYTES_MAX = 192 << 20

_PARTS = re.compile(
    r"\$scrypt\$ln=(?P<n>\d{2}),r=(?P<r>\d+),p=(?P<p>\d+)\$(?P<salt>[^$]+)\$(?P<hash>[^$]+)"
)
# Of a user that does not exist: the answer takes as long as for one that does.
_NO_USER = f"$scrypt$ln={LOG_N},r={R},p={P}${'A' * 22}${'A' * 32}"


def hash_password(password: str, log_n: int = LOG_N, p: int = P) -> str:
    salt = secrets.token_bytes(SALT_BYTES)
    digest = _scrypt(password, salt, log_n, R, p, HASH_BYTES)
    return f"$scrypt$ln={log_n},r={R},p={p}${_encoded(salt)}${_encoded(digest)}"


def is_hash(text: str) -> bool:
    return _PARTS.fullmatch(text) is not None


def is_password(password: str, stored: str | None) -> bool:
    """Takes a tenth of a second to seconds of one processor, so not on the event loop. None: there
    is no such user.
    """
    parts = _PARTS.fullmatch(stored or _NO_USER)
    assert parts is not None, "the configuration takes no other"
    expected = _decoded(parts["hash"])
    numbers = int(parts["n"]), int(parts["r"]), int(parts["p"])
    found = _scrypt(password, _decoded(parts["salt"]), *numbers, len(expected))
    return hmac.compare_digest(found, expected) and stored is not None


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str) -> str:
    return f"$sha256${_encoded(hashlib.sha256(token.encode()).digest())}"


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << log_n, r=r, p=p, maxmem=MEMORY_BYTES_MAX, dklen=length
    )


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
