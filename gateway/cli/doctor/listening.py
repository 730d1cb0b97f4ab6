"""`tidegate doctor --listen PORT`: reads a port for a while and reports what comes over it.

Nothing is sent. Opening a port makes some boards restart, which is received as well.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.progress import Progress
from gateway.config.settings import SerialSettings, Settings
from gateway.transports.clock import now
from gateway.transports.framing.analysis import LineAnalysis, LineContent, What
from gateway.transports.serial.line import LineCallbacks, LineError, LineFailure, PortOptions
from gateway.transports.serial.port import open_line, port_options

GAP_CHECK_S = 0.02  # between two checks whether the line is silent

MQTT_SN = frozenset({What.HDLC, What.SLIP, What.RAW})


def options_for(port: str, baud: int | None, settings: Settings | None) -> PortOptions:
    """As configured, if it is; what was asked for goes before that."""
    lines = () if settings is None else settings.serial
    same = (line for line in lines if os.path.realpath(line.port) == os.path.realpath(port))
    line = next(same, SerialSettings(port=port))
    options = replace(port_options(line), port=port)
    return options if baud is None else replace(options, baud=baud)


def listen(options: PortOptions, seconds: float) -> LineContent:
    """Ctrl-C ends it early. Raises LineError."""
    return asyncio.run(_listen(options, seconds))


async def _listen(options: PortOptions, seconds: float) -> LineContent:
    loop = asyncio.get_running_loop()
    analysis = LineAnalysis(options.baud)
    over = asyncio.Event()
    bytes_received = 0

    def on_bytes(chunk: bytes) -> None:
        nonlocal bytes_received
        bytes_received += len(chunk)
        analysis.feed(chunk, now())

    # What was received up to a loss of the port is reported as well.
    callbacks = LineCallbacks(on_bytes, writable=lambda: None, lost=lambda _reason: over.set())
    line = await open_line(options, callbacks)
    loop.add_signal_handler(signal.SIGINT, over.set)
    progress = Progress(lambda left: f"listening for {left} s more, {bytes_received} bytes so far")
    began = now()
    line.begin()
    try:
        while not over.is_set() and now() - began < seconds:
            try:
                async with asyncio.timeout(GAP_CHECK_S):
                    await over.wait()
            except TimeoutError:
                analysis.feed(b"", now())
            progress.at(int(seconds - (now() - began)))
    finally:
        progress.end()
        loop.remove_signal_handler(signal.SIGINT)
        line.close()
        await line.closed()
    return analysis.result(now() - began)


def exit_code(content: LineContent) -> ExitCode:
    return ExitCode.OK if content.what in MQTT_SN else ExitCode.FAILURE


def why_not(error: LineError, port: str) -> str:
    if error.failure is not LineFailure.BUSY:
        return str(error)
    return f"{error}. If it is the gateway, type:  tidegate serial release {port} --for 10m"


def failure_code(error: LineError) -> ExitCode:
    is_permission = error.failure is LineFailure.PERMISSION
    return ExitCode.PERMISSION if is_permission else ExitCode.UNAVAILABLE


def content_rows(options: PortOptions, content: LineContent) -> Iterator[tuple[str, str]]:
    yield "port", f"{options.port} at {options.baud} baud"
    yield "heard", content.text
    for line in content.lines:
        yield "", f"  {line}"
    yield "advice", content.advice


def content_as_json(options: PortOptions, content: LineContent) -> dict[str, Any]:
    document = asdict(content) | {"what": content.what.value, "lines": list(content.lines)}
    return {"port": options.port, "baud": options.baud, **document}
