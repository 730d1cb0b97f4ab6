"""The page reads what waits on disk in a process of its own, one at a time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.admin.buffer_reader import PEEKED, BufferReader
from gateway.admin.http.operating import CannotError
from gateway.config.settings import GatewaySettings
from tests.cli.stored import new_reading, store

READINGS = 3 * PEEKED


def reader_of(folder: Path) -> BufferReader:
    gateway = GatewaySettings(name="greenhouse", state_dir=folder)
    store(
        gateway.journal_dir, [new_reading(b"%d" % each, sequence=each) for each in range(READINGS)]
    )
    return BufferReader(gateway)


async def exported(reader: BufferReader) -> bytes:
    return b"".join([piece async for piece in reader.export()])


def test_a_look_is_the_next_few_and_an_export_is_all_of_them(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    looked = json.loads(asyncio.run(reader.peek()))
    assert (looked["schema"], looked["gateway"]) == ("tidegate.buffer.peek/1", "greenhouse")
    assert [each["seq"] for each in looked["readings"]] == list(range(PEEKED))
    lines = asyncio.run(exported(reader)).decode().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(READINGS))


def test_a_second_one_at_the_same_time_is_refused_and_later_is_not(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)

    async def story() -> None:
        first = asyncio.create_task(reader.peek())
        await asyncio.sleep(0)  # it begins
        with pytest.raises(CannotError, match="somebody else"):
            await reader.peek()
        with pytest.raises(CannotError, match="somebody else"):
            await exported(reader)
        await first
        assert await reader.peek()

    asyncio.run(story())


def test_who_does_not_want_the_rest_leaves_no_process_behind(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)

    async def story() -> None:
        pieces = reader.export()
        assert await anext(pieces)
        await pieces.aclose()
        assert await reader.peek(), "nobody holds it any more"

    asyncio.run(story())


def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    reader = BufferReader(GatewaySettings(name="greenhouse", state_dir=tmp_path / "none"))
    with pytest.raises(CannotError, match="tidegate buffer peek"):
        asyncio.run(reader.peek())
