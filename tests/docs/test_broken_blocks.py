"""A block of each kind that is broken on purpose is found."""

from __future__ import annotations

import pytest

from tests.docs import files, pages, root, shapes
from tests.docs.blocks import Block, blocks_in, state_of
from tests.docs.commands import faults_of_script, script_of
from tests.docs.kinds import IN_ROOT, Kind, UnknownBlockError, kind_of
from tests.docs.outputs import difference

# One of each kind that is read, as it could stand in a page.
READ = {
    Kind.GATEWAY: '```toml\n[upstream]\npasword_file = "x"\n```',
    Kind.INGEST: "<!-- block: ingest -->\n```toml\n[spark]\nmaster = 1\n```",
    Kind.BENCH: '<!-- block: bench -->\n```toml\n[[board]]\nid = "attic"\nkind = "none"\n```',
    Kind.SCENARIO: '<!-- block: scenario -->\n```toml\ntitle = "x"\n[[event]]\ndo = "rain"\n```',
    Kind.BOARD: '<!-- block: board -->\n```toml\ntitle = "x"\ncolour = "red"\n```',
    Kind.SETTINGS: '<!-- block: settings -->\n```json\n{"id": "x", "color": 1}\n```',
    Kind.SECRETS: '<!-- block: secrets -->\n```json\n{"update_key": "abc"}\n```',
    Kind.MOSQUITTO: "```conf\nlistener 1883\nallow_anonymus true\n```",
    # As docs/mqtt.md had it: mosquitto knows no comment behind a topic.
    Kind.ACL: "<!-- block: acl -->\n```conf\nuser x\ntopic write a/#   # theirs\n```",
    Kind.UNIT: "```ini\n[Unit]\nDescription=x\n[Service]\nType=whatever\n```",
    Kind.PROMETHEUS: "```yaml\nscrape_configs:\n  - job: tidegate\n```",
    Kind.COMPOSE: "```yaml\nservices:\n  gateway:\n    ports: [1883]\n```",
    Kind.YAML: "<!-- block: yaml, of no program -->\n```yaml\na: [1\n```",
    Kind.JSON: '```json\n{"a": 1,}\n```',
    Kind.SQL: "<!-- block: sql, no database -->\n```sql\nselect sum(n from x\n```",
    Kind.DIFF: "```diff\n+    one\ntwo\n```",
    Kind.MISTAKES: (
        "<!-- block: mistakes -->\n```\nconfig.toml:2:7: gateway.id: expected 1, got 300\n```"
    ),
    Kind.HELD: "<!-- block: held, tests/house/test_house.py -->\n```\n0D 04\n```",
    Kind.DRAWING: "<!-- block: drawing -->\n```\nno lines\n```",
    Kind.WORDS: "<!-- block: words, a letter -->\n```\n\n```",
}
FORMS = [
    "<!-- block: shape, a board -->\n```sh\ntidegate flsh\n```",
    "<!-- block: shape, a board -->\n```sh\ntidegate flash --nme x\n```",
    "<!-- block: shape, a board -->\n```sh\nif true; then echo\n```",
    "<!-- block: shape, a board -->\n```sh\npython -m firmware.build\n```",
    "<!-- block: shape, a board -->\n```sh\n.venv/bin/python -m firmware.bild\n```",
    "<!-- block: shape, a board -->\n```sh\n.venv/bin/python -m firmware.image --nmber 2\n```",
    "<!-- block: shape, a board -->\n```sh\nmake dem\n```",
    "<!-- block: shape, a board -->\n```sh\nmosquito_sub -t x\n```",
    "<!-- block: shape, a board -->\n```console\n$ tidegate flash list\nthe moon is full\n```",
    "<!-- block: shape, a board -->\n```python\nimport = 1\n```",
    "<!-- block: said -->\n```\nthe tide is never told\n```",
]
# Faults that once stood in the documents, and what else only running finds.
RUN = {
    "no folder": "```sh\necho x | sudo tee /etc/sysusers.d/tidegate.conf\n```",
    "sudo has another PATH": "```sh\nsudo env A=b uv tool install .\n```",
    "ours is at no index": "```sh\npipx install 'tidegate[flash]'\n```",
    "no such extra": "```sh\npipx install '.[flesh]'\n```",
    "cron has another PATH": "<!-- block: cron -->\n```\n1 1 * * * root uv --version\n```",
    "a percent sign in cron": "<!-- block: cron -->\n```\n1 1 * * * root date +%a\n```",
    "a file that is not there": "```sh\nsudo apt-get install ./dist/tidegate_*.deb\n```",
    "a unit": (
        "```sh\nprintf '[Service]\\nType=what\\n' | sudo tee /etc/systemd/system/tidegate.service\n"
        "sudo systemctl daemon-reload\n```"
    ),
    "another answer": "```console\n$ tidegate serial\nthere are two of them\n```",
    "an answer too few": "```console\n$ tidegate buffer\njournal   ok\n```",
    "python": "```python\nimport gateway.nothing\n```",
    "micropython": '```python\nfrom mqttsn import Client, Udp\nClient(Udp(), b"x").connect()\n```',
    "await": "```python\nfrom mqttsn.aio import AioClient\nawait AioClient.dance()\n```",
    "for ever": "<!-- block: sh, for ever -->\n```sh\nfalse\n```",
}


def only(text: str) -> Block:
    (block,) = blocks_in(text, "docs/page.md")
    return block


@pytest.mark.parametrize("kind", READ)
def test_a_broken_file_is_found(kind: Kind) -> None:
    block = only(READ[kind])
    assert kind_of(block) is kind
    try:
        assert files.fault_of(block, kind)
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")


def test_each_kind_is_broken_here() -> None:
    assert set(READ) | IN_ROOT | {Kind.SHAPE, Kind.SAID} == set(Kind)
    assert {kind_of(only(text)) for text in RUN.values()} == IN_ROOT


@pytest.mark.parametrize("text", FORMS)
def test_what_cannot_be_typed_or_is_never_printed_is_found(text: str) -> None:
    assert list(shapes.faults_of(only(text)))


def test_what_can_be_typed_is_no_fault() -> None:
    block = only(
        "```sh\n( umask 077; echo x > y ) && sudo -u pi tidegate status --json | jq .  # all\n```"
    )
    assert list(faults_of_script(script_of(block))) == []


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str | None]:
    if reason := root.why_not():
        pytest.skip(f"not tried: {reason}")
    blocks = [only(text) for text in RUN.values()]
    ran = root.run("running", [pages.script_for(block) for block in blocks])
    judged = [pages.judged(block, outcome) for block, outcome in zip(blocks, ran, strict=True)]
    return dict(zip(RUN, judged, strict=True))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", RUN)
def test_what_goes_wrong_when_it_is_run_is_found(
    outcomes: dict[str, str | None], name: str
) -> None:
    assert outcomes[name]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```\nwords\n```", "the tag '' says not"),
        ("```yaml\na: 1\n```", "the tag 'yaml' says not"),
        ("<!-- block: poem -->\n```\nwords\n```", "'poem' is none of"),
        ("<!-- block: shape -->\n```sh\nmake demo\n```", "without a reason"),
    ],
)
def test_a_block_of_no_known_kind_is_a_fault(text: str, why: str) -> None:
    with pytest.raises(UnknownBlockError, match=why):
        kind_of(only(text))


@pytest.mark.parametrize(
    ("shown", "said", "is_same"),
    [
        ("up for 3 min 4 s", "up for 12 s", True),
        ("at 10.0.0.5:1883", "at 127.0.0.1:18", True),
        ("a   b", "a b", True),
        ("a ... d", "a b c d", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a", "a\nb", False),
        ("a\nb", "a", False),
        ("12 readings", "12 messages", False),
    ],
)
def test_answers_are_compared_by_their_words(shown: str, said: str, is_same: bool) -> None:
    assert (difference(shown, said) is None) is is_same


def test_comments_belong_to_the_block_behind_them() -> None:
    page = (
        "<!-- page: bare -->\n<!-- block: shape, a -->\n<!-- before:\nx\ny\n-->\n\n"
        "```sh\nz\n```\n```sh\n```\n"
    )
    first, second = blocks_in(page, "page.md")
    assert (first.kind, first.reason, first.before) == ("shape", "a", "x\ny")
    assert (second.kind, second.reason, second.before) == ("", "", "")
    assert state_of(page) == "bare"


def test_promql_and_metrics_that_are_none_are_found() -> None:
    try:
        assert files.expression_fault("rate(tidegate_dropped_total) > ")
        assert files.metrics_fault('# TYPE a gauge\na{quantile="0.5"} 1\n')
    except files.SkippedError as reason:
        pytest.skip(f"not tried: {reason}")
