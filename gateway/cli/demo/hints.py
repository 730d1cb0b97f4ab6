"""What to type next: commands that work while the demo runs."""

from __future__ import annotations

import shutil

from gateway.cli.called import runnable
from gateway.cli.demo.gateway_process import Ports
from gateway.cli.demo.seen import Seen
from gateway.cli.sensors.sensor import command_topic_of


def hints(ports: Ports, seen: Seen) -> list[str]:
    # The user's first command goes to the last sensor: ours start with the first.
    topic = command_topic_of(list(seen.sensors)[-1])
    lines = [
        "Try this in another terminal (Ctrl-C here ends everything):",
        f"  tidegate watch --set upstream.url=mqtt://127.0.0.1:{ports.broker}",
        f"  mosquitto_pub -p {ports.broker} -t {topic} -m 3",
        f"  tidegate clients --set admin.listen=127.0.0.1:{ports.admin}",
        f"  curl http://127.0.0.1:{ports.admin}/metrics",
    ]
    missing = [
        package
        for command, package in (("mosquitto_pub", "mosquitto-clients"), ("curl", "curl"))
        if shutil.which(command) is None
    ]
    if missing:
        lines.append(f"  (first: sudo apt-get install -y {' '.join(missing)})")
    return [runnable(line) for line in lines]
