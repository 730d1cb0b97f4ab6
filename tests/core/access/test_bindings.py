"""Bindings against an evaluator that asks each identity there could be, one by one."""

from __future__ import annotations

import fnmatch
import re
from itertools import product
from random import Random

import pytest

from gateway.config.patterns import IDENTITY, behind, matches
from gateway.core.access.bindings import (
    FREE,
    VERDICTS_MAX,
    Binding,
    Bindings,
    Bound,
    is_proven,
    name_of,
)

SETS = 100_000
# All texts of two letters at most: patterns of one letter tell no more of them apart.
NAMES = ["", *("".join(each) for size in (1, 2, 3) for each in product("ab", repeat=size))]
KINDS = ("psk:", "anonymous@")
IDENTITIES = [kind + name for kind in KINDS for name in NAMES]
IDENTITY_PATTERNS = ("*", "psk:*", "psk:a", "psk:a*", "*b", "anonymous@*", "anonymous@b", "p*a*")
CLIENT_PATTERNS = ("a", "b*", "*", "ab", "{identity}", "a{identity}", "{identity}b", "*{identity}")


def alike(pattern: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, pattern)


def with_name(pattern: str, identity: str) -> str:
    return pattern.replace(IDENTITY, re.sub(r"^[a-z]+[:@]", "", identity))


def uses(binding: Binding, client_id: str, identity: str) -> bool:
    return any(alike(each, identity) for each in binding.identities) and any(
        alike(with_name(each, identity), client_id) for each in binding.clients
    )


def expected(all_bindings: list[Binding], client_id: str, identity: str) -> Bound:
    """By the words of the rule, and all identities there are."""
    for number, each in enumerate(all_bindings):
        if uses(each, client_id, identity):
            return Bound(True, number)
    for number, each in enumerate(all_bindings):
        is_identity_bound = any(alike(pattern, identity) for pattern in each.identities)
        if is_identity_bound or any(uses(each, client_id, other) for other in IDENTITIES):
            return Bound(False, number)
    return FREE


def test_very_many_random_bindings_are_as_the_evaluator_says() -> None:
    random = Random(46)
    counted = dict.fromkeys((True, False, None), 0)
    for _ in range(SETS):
        all_bindings = [
            Binding(
                random.sample(IDENTITY_PATTERNS, random.randint(1, 2)),
                random.sample(CLIENT_PATTERNS, random.randint(1, 2)),
            )
            for _ in range(random.randint(0, 3))
        ]
        client_id, identity = random.choice(NAMES[1:7]), random.choice(IDENTITIES)
        found = Bindings(all_bindings).verdict(client_id, identity)
        assert found == expected(all_bindings, client_id, identity), (
            all_bindings, client_id, identity,
        )  # fmt: skip
        counted[None if found.binding is None else found.is_allowed] += 1
    assert min(counted.values()) > SETS / 10, "each answer is common"


@pytest.mark.parametrize(
    ("client_id", "identity", "is_allowed"),
    [
        ("tank", "psk:tank", True),
        ("tank", "psk:well", False),
        ("tank", "anonymous@udp0", False),
        ("tank", "", False),
        ("node-7", "forwarder:udp0/07", True),
        ("node-7", "forwarder:udp0/08", False),
        ("bridge-udp0/08", "forwarder:udp0/08", True),
        ("garden-1", "anonymous@udp1", True),
        ("garden-1", "psk:garden-1", False),
        ("other", "anonymous@udp1", False),
        ("other", "anonymous@udp0", True),
        ("other", "serial:serial0", True),
    ],
)
def test_a_client_id_is_for_its_identity_and_an_identity_has_no_other(
    client_id: str, identity: str, is_allowed: bool
) -> None:
    bindings = Bindings(
        [
            Binding(["psk:tank", "psk:well"], [IDENTITY]),
            Binding(["forwarder:udp0/07"], ["node-7"]),
            Binding(["forwarder:*"], ["bridge-{identity}"]),
            Binding(["anonymous@udp1"], ["garden-*"]),
        ]
    )
    assert bindings.verdict(client_id, identity).is_allowed is is_allowed


def test_a_name_with_an_asterisk_is_no_pattern() -> None:
    bindings = Bindings([Binding(["psk:*"], ["{identity}", "x-{identity}-*"])])
    assert bindings.verdict("*", "psk:*").is_allowed
    assert not bindings.verdict("tank", "psk:*").is_allowed
    assert bindings.verdict("x-*-1", "psk:*").is_allowed
    assert not bindings.verdict("x-tank-1", "psk:*").is_allowed


def test_an_identity_without_a_kind_has_no_name() -> None:
    assert name_of("tank") is None
    assert name_of("cert:tank:1@b") == "tank:1@b"
    assert not Bindings([Binding(["tank"], [IDENTITY])]).verdict("tank", "tank").is_allowed
    assert [is_proven(each) for each in ("psk:a", "cert:a", "sender:a")] == [True] * 3
    assert not any(is_proven(each) for each in ("", "serial:a", "anonymous@a", "forwarder:a/b"))


def test_what_is_remembered_has_a_limit() -> None:
    bindings = Bindings([])
    for number in range(VERDICTS_MAX + 10):
        assert bindings.verdict(str(number), "") is bindings.verdict(str(number), "")
    assert len(bindings._found) == 10


@pytest.mark.parametrize(
    ("pattern", "start", "found"),
    [
        ("psk:*", "psk:", {"*"}),
        ("psk:a*", "psk:", {"a*"}),
        ("cert:*", "psk:", set()),
        ("*", "psk:", {"*"}),
        ("p*:a", "psk:", {"a", "*:a"}),
        ("**k*:*", "psk:", {"*", "*:*", "*k*:*", "**k*:*"}),
        ("", "psk:", set()),
        ("psk:", "psk:", {""}),
    ],
)
def test_what_may_follow_a_beginning(pattern: str, start: str, found: set[str]) -> None:
    assert behind(pattern, start) == found
    for text in NAMES:
        assert matches(pattern, start + text) is any(matches(each, text) for each in found)
