"""What DTLS refuses is in the log, once in a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

pytest.importorskip("OpenSSL", reason="pyOpenSSL is missing: make setup")

from gateway.app import listeners
from gateway.app.listeners import OUTSIDE_LOG_S, RECORDS_REFUSED_TOLD, SensorLinks
from gateway.transports.dtls.link import DtlsCounters, DtlsLink


@dataclass
class Counting:
    counters: DtlsCounters = field(default_factory=DtlsCounters)

    def look(self) -> None:
        pass


@pytest.mark.plain
def test_refusals_are_said_once_a_minute_by_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    time_s = 1000.0
    monkeypatch.setattr(listeners, "now", lambda: time_s)
    links, link = SensorLinks(), Counting()
    links.dtls[1] = cast("DtlsLink", link)

    def said() -> list[str]:
        caplog.clear()
        links.look()
        return caplog.messages

    assert said() == []
    link.counters.dropped = RECORDS_REFUSED_TOLD - 1  # copies
    assert said() == []
    link.counters.refused["failed"] = 2
    link.counters.refused["unknown_key"] = 1
    (first,) = said()
    assert "udp1: DTLS refused 3 handshakes, failed 2, unknown_key 1 and 99 records" in first
    link.counters.refused["failed"] += 40
    assert said() == []
    time_s += OUTSIDE_LOG_S
    (second,) = said()
    assert "refused 40 handshakes, failed 40 and 0 records" in second
    time_s += OUTSIDE_LOG_S
    link.counters.dropped += RECORDS_REFUSED_TOLD
    (third,) = said()
    assert "refused 0 handshakes and 100 records" in third
