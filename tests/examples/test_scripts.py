"""docs/scripts.md and its act.sh, beside a real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.admin.http.actions import _ACTIONS
from hil.rig.gateway import GatewayProcess
from hil.rig.scripted_client import sensor
from tests.examples import EXAMPLES, REPOSITORY
from tests.examples.typed import shell_blocks, typed

NOWHERE = "mqtt://127.0.0.1:1"
PASSWORD = 'a "long" one'
pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("jq") is None,
    reason="the script needs curl and jq, and this machine lacks one of them",
)


@dataclass(frozen=True)
class Page:
    gateway: GatewayProcess
    url: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        file = self.folder / "admin.password"
        return {"TIDEGATE_PAGE": self.url, "TIDEGATE_PASSWORD_FILE": str(file)}

    def act(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(EXAMPLES / "act.sh"), *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    def alarms(self) -> str:
        with urlopen(f"{self.url}/api/status", timeout=10) as answer:
            return str(json.load(answer)["alarms"])


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    (tmp_path / "admin.password").write_text(f"{PASSWORD}\n")
    config = (
        '[admin]\nlisten = "127.0.0.1:0"\npassword_file = "admin.password"\n'
        '[admission]\npermit = "listed"\nlisted = ["tank"]\n'
    )
    with GatewayProcess(tmp_path, NOWHERE, config) as gateway:
        found = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
        yield Page(gateway, found, tmp_path)


def test_what_the_page_says_to_type_is_done(page: Page) -> None:
    asking, acting = shell_blocks("scripts.md")
    config = f"tidegate status --config {page.gateway.config_path} --set admin.listen="
    changes = {
        "tidegate status": config + page.url.removeprefix("http://"),
        "http://127.0.0.1:8080": page.url,
    }

    async def story() -> str:
        async with sensor(page.gateway.port, "tank") as tank:
            await tank.connect()
            await tank.subscribe(b"commands/tank", qos=1)
            said = await asyncio.to_thread(typed, acting, page.folder, {}, page.environment)
            assert (await tank.message())[2] == b"open"
            return said

    assert typed(asking, page.folder, changes).startswith("false\n")
    said = asyncio.run(story())
    assert len(said.splitlines()) == 3
    assert "paused" in page.alarms()
    log = page.gateway.log_path.read_text()
    assert re.findall(r"asked on the page: (\w+)", log) == ["publish", "permit", "pause"]
    assert PASSWORD not in log


def test_a_refusal_is_a_sentence_and_an_exit_code(page: Page) -> None:
    refused = page.act("publish", '{"client": "tank"}')
    assert refused.returncode != 0
    assert "topic is a text" in refused.stderr
    assert page.act("dance").returncode != 0
    (page.folder / "admin.password").write_text("a guess\n")
    refused = page.act("pause")
    assert refused.returncode != 0
    assert "not the password" in refused.stderr
    assert "paused" not in page.alarms()


def test_the_table_has_each_action() -> None:
    text = (REPOSITORY / "docs" / "scripts.md").read_text()
    table = text.split("| action | body | |")[1].split("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(first))) == set(_ACTIONS)
