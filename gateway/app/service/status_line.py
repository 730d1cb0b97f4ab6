"""The state of the gateway in one line for `systemctl status`, cheap to make at any size."""

from __future__ import annotations

from gateway.admin.snapshot import Snapshot
from gateway.transports.broker.link import LinkState


def status_line(snapshot: Snapshot) -> str:
    broker = snapshot.broker
    parts = [f"{len(snapshot.engine.sessions)} sensors"]
    if broker.state is LinkState.ACCEPTED:
        parts.append("broker connected")
    else:
        parts.append(f"broker away ({broker.reason})" if broker.reason else "broker away")
    depth = snapshot.journal().depth
    if depth:
        parts.append(f"{depth} readings wait on disk")
    return ", ".join(parts)
