"""A reading and a command go through the files that docs/design.md names, in their order."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import sensor
from tests.support.application import application, heard

DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"

# Writes, for each input of the shell, the files of the gateway that were called by it, in order of
# the first call, and each call from one of them to another.
TRACED = """
import json, sys
from pathlib import Path
import gateway
ROOT = Path(gateway.__file__).parent
TO = open({path!r}, "w", buffering=1)
INPUTS = {{"on_datagrams", "on_bytes"}}
names, depth, calls = {{}}, None, []

def name_of(code):
    name = names.get(code)
    if name is None:
        path = Path(code.co_filename)
        name = names[code] = str(path.relative_to(ROOT)) if ROOT in path.parents else ""
    return name

def trace(frame, event, _):
    global depth
    if event == "call":
        name = name_of(frame.f_code)
        if depth is None:
            if name != "app/shell.py" or frame.f_code.co_name not in INPUTS:
                return
            depth = frame
            calls.clear()
        caller = frame.f_back
        calls.append((name_of(caller.f_code) if caller else "", name))
    elif event == "return" and frame is depth:
        depth = None
        TO.write(json.dumps([frame.f_code.co_name, [each for each in calls if all(each)]]) + "\\n")

from gateway.__main__ import main
sys.setprofile(trace)
sys.exit(main(sys.argv[1:]))
"""


def files_of(title: str) -> list[str]:
    """The numbered list under a heading of docs/design.md."""
    section = DESIGN.read_text().split(f"### {title}\n", 1)[1].split("\n##", 1)[0]
    return re.findall(r"^\d+\. `gateway/([^`]+)`", section, re.MULTILINE)


def walked(trace: Path, name: str, files: list[str]) -> list[tuple[str, str]]:
    """The calls of the first input that goes through all files."""
    for line in trace.read_text().splitlines():
        found, calls = json.loads(line)
        if found == name and set(files) <= {file for call in calls for file in call}:
            return [(caller, callee) for caller, callee in calls]
    raise AssertionError(f"no {name} went through {files}")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Of a gateway that carried one reading and one command."""
    path = tmp_path / "trace"
    command = (sys.executable, "-c", TRACED.format(path=str(path)))
    with Mosquitto() as broker:
        gateway = GatewayProcess(tmp_path, broker.url, command=command)

        async def story() -> None:
            async with application(broker, "field") as app, sensor(gateway.port, "s1") as s1:
                await s1.connect()
                topic = await s1.register("field")
                await s1.subscribe(b"command")
                await s1.publish(topic, b"21.5", qos=1)
                await heard(app)
                await app.publish("command", b"on", qos=1)
                await s1.message()

        gateway.start(environment={"TIDEGATE_COMPILED": "no"})
        try:
            gateway.wait_until_connected()
            asyncio.run(story())
            assert gateway.stop() == 0
        finally:
            gateway.kill()
    return path


def test_readings_and_commands_go_one_way_and_never_back(trace: Path) -> None:
    for title, name in (
        ("A reading in eight files", "on_datagrams"),
        ("A command in eight files", "on_bytes"),
    ):
        files = files_of(title)
        assert len(files) == 8, f"docs/design.md, {title}"
        calls = walked(trace, name, files)
        first_calls = list(dict.fromkeys(file for call in calls for file in call if file in files))
        assert first_calls == files, title
        back = [
            call
            for call in calls
            if call[0] in files and call[1] in files and files.index(call[1]) < files.index(call[0])
        ]
        assert back == [], f"{title}: calls that go back"
