"""Where the message ids of a session begin: anywhere, and only the gateway knows where.

Who acknowledges a message by its id has received it, if the id could not be guessed; so ids that
are counted from 1 would prove nothing. The start follows from a secret of this run and a count, so
that a run can be repeated with the same secret. Topic ids are no secret: clients keep them, and
they stay small.
"""

from __future__ import annotations

from hashlib import blake2b

from gateway.core.session.outbox import MESSAGE_IDS

_COUNT_BYTES = 8
_DIGEST_BYTES = 8


class MessageIdStarts:
    def __init__(self, secret: bytes) -> None:
        """Without a secret all begin with 1."""
        self._secret = secret
        self._made = 0

    def take(self) -> int:
        """The position of a session's first message, which its id follows from."""
        if not self._secret:
            return 0
        self._made += 1
        count = self._made.to_bytes(_COUNT_BYTES, "big")
        digest = blake2b(count, digest_size=_DIGEST_BYTES, key=self._secret).digest()
        return int.from_bytes(digest, "big") % MESSAGE_IDS
