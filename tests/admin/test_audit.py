"""The audit log: what is in it, its bounds, and what a power cut or a full disk leaves."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin.audit import PENDING_MAX, AuditEntry, AuditLog
from gateway.storage import audit_log
from gateway.storage.audit_log import AUDIT_FILE, FILE_BYTES_MAX, FORMER_FILE, append, read
from tests.admin.conftest import Run
from tests.admin.http_client import get, post, serving, session_headers
from tests.admin.test_actions import Noted

ENTRY = AuditEntry(
    "user:anna", "operator", "page", "10.0.0.7", "forget", {"client": "well"}, "gone"
)


def test_a_line_has_who_what_when_and_from_where(tmp_path: Path) -> None:
    append(tmp_path, [replace(ENTRY, unix_s=0.5).line()])
    (found,) = read(tmp_path)
    assert found == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "who": "user:anna",
        "role": "operator",
        "via": "page",
        "from": "10.0.0.7",
        "what": "forget",
        "asked": {"client": "well"},
        "done": True,
        "answer": "gone",
    }
    assert (tmp_path / AUDIT_FILE).stat().st_mode & 0o777 == 0o600
    assert list(read(tmp_path, since_unix_s=1.0)) == []


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    append(tmp_path, [ENTRY.line(), ENTRY.line()])
    path = tmp_path / AUDIT_FILE
    os.truncate(path, path.stat().st_size - 20)
    append(tmp_path, [ENTRY.line()])
    assert [each is None for each in read(tmp_path)] == [False, True, False]


def test_it_is_bounded_and_keeps_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "FILE_BYTES_MAX", 2000)
    for number in range(100):
        append(tmp_path, [AuditEntry("u", "r", "api", "h", f"{number}").line()])
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([AUDIT_FILE, FORMER_FILE])
    assert max(sizes) <= 2000 < FILE_BYTES_MAX
    kept = [str(each["what"]) for each in read(tmp_path) if each is not None]
    assert kept == [str(number) for number in range(100 - len(kept), 100)]
    large = AuditEntry("u", "r", "api", "h", "x", {"topic": "t" * 100_000}).line()
    assert len(large) < audit_log.LINE_BYTES_MAX


def test_what_cannot_be_written_waits_in_bounds_and_the_loss_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        folder = tmp_path / "not there"
        log = AuditLog(folder)
        for _ in range(PENDING_MAX + 5):
            await log.record(ENTRY)
        assert log.lost == 5
        folder.mkdir()
        log._pending.pop()
        await log.record(ENTRY)
        found = list(read(folder))
        assert len(found) == PENDING_MAX + 1
        assert found[-2] is not None
        assert (found[-2]["what"], found[-2]["asked"]) == ("lost", {"entries": 5})

    asyncio.run(story())


def test_a_change_is_on_the_disk_before_it_is_answered_and_has_no_secret(
    run: Run, tmp_path: Path
) -> None:
    async def story() -> None:
        log = AuditLog(tmp_path)
        async with serving(operating=Noted(), password=b"tide-canary", audit=log.record) as server:
            await post(server, "/api/session", {"password": "wrong-canary"})
            shown = await session_headers(server, "tidegate", "tide-canary")
            headers = {name.replace("-", "_"): value for name, value in shown.items()}
            asked = {"client": "well", "topic": "cmd", "payload": "payload-canary"}
            assert (await post(server, "/api/actions/publish", asked, **headers)).status == 200
            read_now = await asyncio.to_thread(lambda: list(read(tmp_path)))
            found = [each for each in read_now if each is not None]
            assert [(each["what"], each["who"], each["done"]) for each in found] == [
                ("sign_in", "anonymous", False),
                ("sign_in", "user:tidegate", True),
                ("publish", "user:tidegate", True),
            ]
            assert found[2]["asked"] == {"client": "well", "topic": "cmd", "payload_length": 14}
            await post(server, "/api/actions/forget", {"client": "nobody"}, **headers)
            await get(server, "/api/session", "DELETE", **headers)
        text = (tmp_path / AUDIT_FILE).read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [(each["what"], each["done"]) for each in lines[3:]] == [
            ("forget", False),
            ("sign_out", True),
        ]
        assert "tide-canary" not in text
        assert "wrong-canary" not in text

    run(story())
