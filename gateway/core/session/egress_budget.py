"""How many bytes may go to a client now.

Two limits, and few clients have either:

- **An address from which nobody has answered** may get three times what came from it, and no more,
  with all repeats: who sends frames in the name of another's address must not be able to aim our
  traffic at it. `credit` is what is left of that; None once the address is believed.
- **Egress**: `bytes_per_s`, and as much at once. What is sent may overdraw it once, so that a frame
  of any size can go; then nothing goes until it is filled again. 0 is for no such limit.
"""

from __future__ import annotations

from math import inf

from gateway.core.effects import Send
from gateway.core.events import Output
from gateway.core.session.options import SessionOptions
from gateway.core.values import Peer
from gateway.frames import Pingreq

AMPLIFICATION_MAX = 3
# CONNACK, the longest answer to what comes from an address first; it is sent in any case.
ANSWER_BYTES = 3
QUESTION_BYTES = 2
PUBREL_BYTES = 4
REGISTER_HEAD_BYTES = 6
PUBLISH_HEAD_BYTES = 7
LONG_FORM_BYTES = 2  # that a frame of more than 255 bytes has in addition


class EgressBudget:
    __slots__ = ("_bytes_per_s", "_filled_at", "_left", "credit", "is_short", "questions")

    def __init__(self, bytes_per_s: int = 0) -> None:
        self.credit: int | None = None
        self.questions = 0  # how often the client was asked whether it is there
        self.is_short = False  # whether something waits for the address to be believed
        self._bytes_per_s = bytes_per_s
        self._left = float(bytes_per_s)
        self._filled_at = -inf

    @property
    def is_needless(self) -> bool:
        return self.credit is None and not self._bytes_per_s

    def is_open(self, now: float) -> bool:
        """Whether what comes now may go at once."""
        return self.credit is None and not self.wait_s(now)

    def take(self, octets: int) -> bool:
        """Whether so many bytes may go, now that their turn has come; they are counted then."""
        if self.credit is not None:
            if octets > self.credit:
                self.is_short = True
                return False
            self.credit -= octets
        self.is_short = False
        self._left -= octets
        return True

    def ask(self, questions_max: int, octets: int) -> bool:
        """Whether to ask, once more and with so many bytes, if somebody is there."""
        if self.credit is None or self.credit < octets or self.questions >= questions_max:
            return False
        self.credit -= octets
        self.questions += 1
        return True

    def wait_s(self, now: float) -> float:
        """How long the next frame has to wait for the egress limit."""
        rate = self._bytes_per_s
        if not rate:
            return 0.0
        elapsed = now - self._filled_at
        self._filled_at = now
        self._left = min(float(rate), self._left + elapsed * rate)
        return 0.0 if self._left > 0 else (1 - self._left) / rate


class Egress:
    """What may be sent to a client now; most clients have no limit, and no budget."""

    __slots__ = ("_egress_budget", "_options", "due_at")

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        egress = options.egress_bytes_per_s_max
        self._egress_budget: EgressBudget | None = EgressBudget(egress) if egress else None
        # When to repeat what is outstanding; infinity while that waits for our disk, None while the
        # client does not listen.
        self.due_at: float | None = None

    @property
    def is_address_validated(self) -> bool:
        """Whether somebody has answered from where the client is."""
        return self._egress_budget is None or self._egress_budget.credit is None

    def require_validation(self, octets: int) -> None:
        """The client is said to be elsewhere: so many bytes came from there."""
        if self._egress_budget is None:
            self._egress_budget = EgressBudget()
        self._egress_budget.credit = credit_for(octets)
        self._egress_budget.questions = 0
        self._egress_budget.is_short = False

    def earn(self, octets: int) -> None:
        """More came from there, and it might still be anybody's."""
        if self._egress_budget is not None and self._egress_budget.credit is not None:
            self._egress_budget.credit += credit_for(octets)

    def validate_address(self) -> None:
        """Somebody answers from where the client is, which was in doubt."""
        assert self._egress_budget is not None, "doubt is an allowance"
        self._egress_budget.credit = None

    def await_word(self) -> None:
        """Neither send nor ask any more while the client is in doubt."""
        assert self._egress_budget is not None, "doubt is an allowance"
        self._egress_budget.is_short = True
        self.due_at = None

    def _was_short(self) -> bool:
        """Whether something waited for `validate_address`, after which few need an allowance."""
        egress_budget = self._egress_budget
        assert egress_budget is not None, "doubt is an allowance"
        if egress_budget.is_needless:
            self._egress_budget = None
        return egress_budget.is_short

    def _may_send(self, octets: int) -> bool:
        return self._egress_budget is None or self._egress_budget.take(octets)

    def _ask(self, peer: Peer, now: float) -> list[Output]:
        """Any answer will do: by it the address is believed."""
        self.due_at = now + self._options.retry_after_s
        return [Send(peer, Pingreq())] if self._may_ask(QUESTION_BYTES) else []

    def _may_ask(self, octets: int) -> bool:
        egress_budget = self._egress_budget
        return egress_budget is not None and egress_budget.ask(
            self._options.retry_count_max, octets
        )


def publish_bytes(payload: bytes) -> int:
    octets = PUBLISH_HEAD_BYTES + len(payload)
    return octets if octets <= 0xFF else octets + LONG_FORM_BYTES


def register_bytes(topic: str) -> int:
    octets = REGISTER_HEAD_BYTES + len(topic.encode())
    return octets if octets <= 0xFF else octets + LONG_FORM_BYTES


def credit_for(octets: int) -> int:
    return AMPLIFICATION_MAX * octets - ANSWER_BYTES
