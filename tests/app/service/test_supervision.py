"""The watchdog and the parts of the gateway: what is stuck is not fed for, and is said once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.app.credentials import read_credentials
from gateway.app.service.notify import ServiceManager
from gateway.app.service.reloading import CurrentConfiguration
from gateway.app.service.supervision import Supervision
from gateway.config import load
from tests.admin.example import Clock
from tests.app.service.systemd_socket import SystemdSocket


def test_a_part_that_is_stuck_starves_the_watchdog_until_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fault: list[str | None] = [None]
    clock = Clock()
    configuration = load(None, environment={}, overrides=[])
    with SystemdSocket(tmp_path) as systemd, caplog.at_level(logging.INFO):
        supervision = Supervision(
            manager=ServiceManager.of(systemd.environment(watchdog_s=30), 7),
            in_force=CurrentConfiguration(configuration, read_credentials(configuration.settings)),
            fault=lambda: fault[0],
            status=lambda: "well",
            load=lambda: configuration,
            apply=lambda _old, _new, _via: None,
            now=clock,
        )

        def fed(seconds: int) -> int:
            for _ in range(seconds):
                clock.now += 1
                supervision.beat()
            said = []
            while (heard := systemd.next(within_s=0.02)) is not None:
                said.append(heard)
            return said.count("WATCHDOG=1")

        assert fed(30) == 3
        fault[0] = "journal_stalled, the journal's work"
        assert fed(60) == 0
        stuck = [record for record in caplog.records if record.levelno == logging.CRITICAL]
        assert [record.getMessage() for record in stuck] == [
            "stuck: journal_stalled, the journal's work; the watchdog is not fed any more"
        ]
        fault[0] = None
        assert fed(30) >= 2, "and is fed again"
