"""What a flood does to honest sessions, and what it leaves: each kind a share of FLOOD."""

import asyncio
import random
import time
from pathlib import Path

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.transports.dtls.options import DtlsOptions
from gateway.transports.socket_address import address_of
from tests.support.dtls_client import DtlsClient
from tests.transports.dtls.listening import HERE, KEY, OTHER_KEY, Listening, keys

FLOOD = 100_000
BATCH = 64  # as the socket brings them
GROWTH_BYTES_MAX = 4 << 20
P99_S_MAX = 0.05


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_forged_cut_and_repeated_records_and_hellos_leave_nothing() -> None:
    async def story() -> None:
        dice = random.Random(46)
        listening = Listening(keys(tank=(KEY,), well=(OTHER_KEY,)), options=DtlsOptions())
        client = listening.connected()
        old = client.sealed(b"old")
        listening.receive(HERE, old)
        (hello,) = DtlsClient("well", OTHER_KEY).begin()

        def hostile() -> tuple[bytes, bytes]:
            spoofed = address_of(f"198.51.{dice.randrange(256)}.{dice.randrange(256)}", 999)
            at = dice.randrange(13, len(old))
            match dice.randrange(6):
                case 0:
                    return spoofed, hello
                case 1:
                    return spoofed, hello[: dice.randrange(len(hello))]
                case 2:
                    return HERE, hello
                case 3:
                    return HERE, old
                case 4:
                    number = dice.randrange(1 << 40).to_bytes(6, "big")
                    return HERE, old[:5] + number + old[11:at] + b"\xaa" + old[at + 1 :]
                case _:
                    return HERE, old[: dice.randrange(len(old))]

        waits: list[float] = []
        before = 0
        for number in range(FLOOD // BATCH):
            if number == 100:
                before = resident_bytes()
            batch = [hostile() for _ in range(BATCH)]
            listening.now += 0.001
            honest = client.sealed(number.to_bytes(4, "big"))
            listening.heard.clear()
            began = time.perf_counter()
            listening.link.on_datagrams([*batch, (HERE, honest)])
            waits.append(time.perf_counter() - began)
            assert listening.heard == [(HERE, number.to_bytes(4, "big"))]
            listening.air.sent.clear()
        assert resident_bytes() - before < GROWTH_BYTES_MAX
        assert listening.link.session_count == 1
        assert listening.link.handshake_count == 0
        p99 = sorted(waits)[len(waits) * 99 // 100]
        print(f"p99 of a look with {BATCH} hostile datagrams: {p99 * 1000:.2f} ms")  # noqa: T201
        assert p99 < P99_S_MAX

    asyncio.run(story())
