"""Start-up time: who does not use the admin server does not pay for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def packages_after(program: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_news_logs_and_lag_bring_no_package_with_them() -> None:
    lean = ("event_log", "numbers", "log.logs", "metrics.lag", "metrics.reference")
    imports = "; ".join(f"import gateway.admin.{name}" for name in lean)
    assert packages_after(imports).isdisjoint({"microdot", "prometheus_client", "http", "email"})


def test_only_the_server_brings_microdot_and_nothing_that_it_does_not_need() -> None:
    packages = packages_after("import gateway.admin.http.server")
    assert "microdot" in packages
    assert packages.isdisjoint({"prometheus_client", "cbor2"})
