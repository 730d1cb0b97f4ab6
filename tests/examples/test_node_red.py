"""docs/examples/consumers/node_red.json: its function nodes, run by node, and its wires."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.examples import EXAMPLES
from tests.examples.published import Message, mixed_pack, packs, tag

FLOW = EXAMPLES / "consumers" / "node_red.json"
NODES = {each["id"]: each for each in json.loads(FLOW.read_text())}
PROGRAM = EXAMPLES.parents[1] / "tests" / "examples" / "function_nodes.js"


def run(names: Sequence[str], messages: Sequence[Message]) -> list[dict[str, Any]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("its functions are JavaScript, and there is no node on this machine")
    given = [
        {"topic": each.topic, "payload": each.payload.hex()}
        | ({"userProperties": each.tag} if each.tag else {})
        for each in messages
    ]
    asked = json.dumps({"flow": str(FLOW), "nodes": names, "messages": given})
    done = subprocess.run(
        [node, str(PROGRAM)], input=asked, capture_output=True, text=True, check=True, timeout=200
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def unix_time(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_senml_is_decoded_in_both_forms() -> None:
    found = [*packs(), mixed_pack()]
    forms = [form for pack in found for form in (pack.cbor, pack.json)]
    answers = run(["each once", "SenML"], [Message(each, tag(at)) for at, each in enumerate(forms)])
    for at, answer in enumerate(answers):
        values = [
            (each["name"], each.get("unit"), each["payload"], unix_time(each["time"].rstrip("Z")))
            for each in answer["out"]
        ]
        assert values == found[at // 2].values
        assert {(each["client"], each["topic"]) for each in answer["out"]} == {
            ("greenhouse-3", "sensors/greenhouse-3")
        }


def test_numbers_of_each_size_are_read() -> None:
    items: dict[str, float] = {
        "00": 0,
        "1818": 24,
        "190100": 256,
        "1a00010000": 65536,
        "1b0000000100000000": 2**32,
    }
    items |= {"20": -1, "3903e7": -1000, "f93c00": 1, "f9c400": -4, "f90001": 2**-24}
    items |= {"fa47c35000": 100000, "fb3ff199999999999a": 1.1, "c11a00000001": 1}
    for data, number in items.items():
        message = Message(bytes.fromhex("81a1" + "02" + data), tag(1))
        assert run(["SenML"], [message])[0]["out"][0]["payload"] == number, data


def test_a_repeat_is_known_by_its_tag_and_by_nothing_else() -> None:
    tags = [tag(1), tag(2), tag(1), tag(1, epoch=4), tag(1, gateway="other"), tag(2), {}, {}]
    answers = run(["each once"], [Message(b"x", each) for each in tags])
    assert [len(each["out"]) for each in answers] == [1, 1, 0, 1, 1, 0, 1, 1]


def test_at_least_the_last_ten_thousand_are_known() -> None:
    seqs = [*range(15_000), *range(5_000, 15_000)]
    answers = run(["each once"], [Message(b"", tag(each)) for each in seqs])
    assert [len(each["out"]) for each in answers] == [1] * 15_000 + [0] * 10_000


def test_what_is_no_senml_is_an_error_for_the_catch_node() -> None:
    wrong = [
        b"",
        b"21.5",
        b"[1",
        b"\xff",
        b"\x82\xa1",
        b"\x9f\xff",
        b'{"n":1}',
        b"\x9a\xff\xff\xff\xff",
    ]
    answers = run(["SenML"], [Message(each, tag(1)) for each in wrong])
    assert all(set(each) == {"error"} for each in answers), answers
    assert NODES["tidegate.catch"]["scope"] == ["tidegate.senml"]


def test_the_flow_is_wired_and_asks_the_broker_to_keep_what_comes() -> None:
    for each in NODES.values():
        assert all(to in NODES for wire in each.get("wires", []) for to in wire)
        assert each.get("z", "tidegate.flow") == "tidegate.flow"
    way, at = [], "tidegate.in"
    while NODES[at]["wires"]:
        at = NODES[at]["wires"][0][0]
        way.append(NODES[at]["name"])
    assert way == ["each once", "SenML", "values"]
    source, broker = NODES["tidegate.in"], NODES["tidegate.broker"]
    assert (source["qos"], source["datatype"], source["broker"]) == ("1", "buffer", broker["id"])
    assert broker["protocolVersion"] == "5", "user properties are of MQTT 5"
    assert broker["clientid"], "a session is kept by the id"
    assert not broker["cleansession"]
    assert int(broker["sessionExpiry"]) > 0
