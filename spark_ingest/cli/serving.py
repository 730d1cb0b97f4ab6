"""Counters on a port, while something runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_ingest.cli.exit_codes import ExitCode, VerbError
from spark_ingest.config.kinds import HostPort

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger("tidegate.ingest")


@contextmanager
def metrics_served(
    listen: HostPort | None, key: str, registry: CollectorRegistry
) -> Iterator[None]:
    """`key` is where the address stands in the configuration. Without one nothing is served."""
    if listen is None:
        yield
        return
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(listen.port, listen.host, registry)
    except OSError as error:
        raise VerbError(
            ExitCode.UNAVAILABLE,
            f"{key}: {listen}: {error.strerror or error}; give each process of a host its own",
        ) from None
    log.info("metrics on http://%s:%d/metrics", *server.server_address[:2])
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
