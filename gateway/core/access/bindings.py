"""Bindings: which identities may use which client ids, in MQTT-SN 1.2 the only name of a client.

Rule 1: a client id that fits a binding is used only by identities that fit that binding, and an
        identity that fits a binding uses only client ids of the bindings that it fits. What fits no
        binding is free.
Rule 2: `{identity}` in a client id stands for what follows the kind of the identity: NAME of
        `psk:NAME`, LINK/NODE of `forwarder:LINK/NODE`. It is taken as it is: `*` in it is no
        pattern. A client id that would be that of some identity of the binding belongs to it,
        whether that identity is there or not.
Rule 3: an identity that is bound and was proven by a key or a certificate (PROVEN_KINDS) needs no
        further proof that it is who it says.

What was found is kept for `VERDICTS_MAX` client ids and identities; of more all are found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.config.patterns import ANY, IDENTITY, behind, fits_parts, matches

VERDICTS_MAX = 20_000
PROVEN_KINDS = ("psk:", "cert:", "sender:")
KINDS = ("anonymous@", *PROVEN_KINDS, "serial:", "forwarder:")


@dataclass(frozen=True, slots=True)
class Binding:
    """Patterns; one of `identities` must fit, and one of `clients`, with `{identity}` at most once
    in each.
    """

    identities: Sequence[str]
    clients: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bound:
    """`binding`: which one decided, counted from 0; None where none is concerned."""

    is_allowed: bool
    binding: int | None = None


FREE = Bound(True)


class Bindings:
    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._bindings = list(bindings)
        self._of_identities = _Patterns()
        self._of_clients = _Patterns()
        for number, each in enumerate(self._bindings):
            for pattern in each.identities:
                self._of_identities.put(pattern, number)
            for pattern in _reserved(each):
                self._of_clients.put(pattern, number)
        self._found: dict[tuple[str, str], Bound] = {}

    def verdict(self, client_id: str, identity: str) -> Bound:
        """Whether this identity may use the client id."""
        key = (client_id, identity)
        return self._found.get(key) or self._find(key)

    def is_proven(self, client_id: str, identity: str) -> bool:
        """Whether a key or a certificate shows that this is the client's own device."""
        verdict = self.verdict(client_id, identity)
        return verdict.is_allowed and verdict.binding is not None and is_proven(identity)

    def _find(self, key: tuple[str, str]) -> Bound:
        verdict = self._judged(*key)
        if len(self._found) >= VERDICTS_MAX:
            self._found.clear()
        self._found[key] = verdict
        return verdict

    def _judged(self, client_id: str, identity: str) -> Bound:
        concerned = self._of_identities.numbers(identity)
        name = name_of(identity)
        for number in sorted(concerned):
            if any(_fits(each, name, client_id) for each in self._bindings[number].clients):
                return Bound(True, number)
        concerned |= self._of_clients.numbers(client_id)
        return Bound(False, min(concerned)) if concerned else FREE


class _Patterns:
    """Numbers by pattern; those without `*` are found at once, however many they are."""

    def __init__(self) -> None:
        self._exact: dict[str, set[int]] = {}
        self._wild: dict[str, set[int]] = {}

    def put(self, pattern: str, number: int) -> None:
        table = self._wild if ANY in pattern else self._exact
        table.setdefault(pattern, set()).add(number)

    def numbers(self, text: str) -> set[int]:
        found = set(self._exact.get(text, ()))
        for pattern, numbers in self._wild.items():
            if matches(pattern, text):
                found |= numbers
        return found


def name_of(identity: str) -> str | None:
    """What follows the kind of an identity; None of one without a kind."""
    return next((identity[len(each) :] for each in KINDS if identity.startswith(each)), None)


def is_proven(identity: str) -> bool:
    """Whether a key or a certificate says who it is."""
    return identity.startswith(PROVEN_KINDS)


def _fits(pattern: str, name: str | None, client_id: str) -> bool:
    if IDENTITY not in pattern:
        return matches(pattern, client_id)
    if name is None:
        return False
    return fits_parts([each.replace(IDENTITY, name) for each in pattern.split(ANY)], client_id)


def _reserved(binding: Binding) -> Iterator[str]:
    """Patterns of all client ids that some identity of the binding may use."""
    for pattern in binding.clients:
        if IDENTITY not in pattern:
            yield pattern
            continue
        for identity in binding.identities:
            for kind in KINDS:
                for name in behind(identity, kind):
                    yield pattern.replace(IDENTITY, name)
