"""mosquitto's acl_file as entries of `[[access]]` (mosquitto.conf(5), acl_file).

There a denial wins wherever it stands, and what is not allowed is forbidden; here the first entry
that fits decides. So denials come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.config.spelling import quoted
from gateway.config.topic_filters import is_filter

READS, WRITES = ("subscribe", "receive"), ("publish", "will", "qos_minus_one")
ACCESSES = {"read": READS, "write": WRITES, "readwrite": (*WRITES, *READS), "deny": ()}
# What stands for the client and its user in a pattern.
SUBSTITUTES = {"%c": "{client}", "%u": "{client}"}


@dataclass(frozen=True, slots=True)
class Rule:
    client: str | None
    topic: str
    actions: Sequence[str]  # none: it denies all

    def lines(self) -> Iterator[str]:
        yield "[[access]]"
        yield f"topics = [{quoted(self.topic)}]"
        if self.client is not None:
            yield f"clients = [{quoted(self.client)}]"
        if not self.actions:
            yield "allow = false"
        elif len(self.actions) < len(ACCESSES["readwrite"]):
            yield f"actions = [{', '.join(map(quoted, self.actions))}]"


@dataclass(slots=True)
class ImportedRules:
    """`problems`: of lines, counted from 1."""

    rules: list[Rule] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def toml(self, made_from: str) -> str:
        in_order = sorted(self.rules, key=lambda each: bool(each.actions))
        parts = ["\n".join(each.lines()) for each in in_order]
        return "\n\n".join([f"# Made from {made_from}.", *parts, ""])


def rules_of(text: str) -> ImportedRules:
    imported, client = ImportedRules(), None
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "user":
            client = rest.strip() or None
        elif word in ("topic", "pattern"):
            _take(imported, number, rest.strip(), None if word == "pattern" else client, word)
        else:
            imported.problems.append((number, f"expected user, topic or pattern, got {word!r}"))
    return imported


def _take(imported: ImportedRules, number: int, rest: str, client: str | None, word: str) -> None:
    access, _, topic = rest.partition(" ")
    if access not in ACCESSES or not topic:
        access, topic = "readwrite", rest
    topic = topic.strip()
    if word == "pattern":
        for given, ours in SUBSTITUTES.items():
            topic = topic.replace(given, ours)
    if not topic or not is_filter(topic):
        imported.problems.append((number, f"expected a topic filter, got {topic!r}"))
        return
    if client is not None and "*" in client:
        imported.problems.append((number, f"a client id with * cannot be a rule's: {client!r}"))
        return
    imported.rules.append(Rule(client, topic, ACCESSES[access]))
