"""`tidegate doctor --listen PORT`: hears a port for a while and says what speaks there.

Nothing is sent. Opening a port makes some boards start anew, which is heard too.
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

GAP_LOOK_S = 0.02  # between two looks at whether the line is silent

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
    listener = LineAnalysis(options.baud)
    over = asyncio.Event()
    octets_heard = 0

    def hear(octets: bytes) -> None:
        nonlocal octets_heard
        octets_heard += len(octets)
        listener.feed(octets, now())

    # What was heard up to a loss of the port is worth telling.
    callbacks = LineCallbacks(hear, writable=lambda: None, lost=lambda _reason: over.set())
    line = await open_line(options, callbacks)
    loop.add_signal_handler(signal.SIGINT, over.set)
    progress = Progress(lambda left: f"listening for {left} s more, {octets_heard} octets so far")
    began = now()
    line.begin()
    try:
        while not over.is_set() and now() - began < seconds:
            try:
                async with asyncio.timeout(GAP_LOOK_S):
                    await over.wait()
            except TimeoutError:
                listener.feed(b"", now())
            progress.at(int(seconds - (now() - began)))
    finally:
        progress.end()
        loop.remove_signal_handler(signal.SIGINT)
        line.close()
        await line.closed()
    return listener.result(now() - began)


def exit_code(heard: LineContent) -> ExitCode:
    return ExitCode.OK if heard.what in MQTT_SN else ExitCode.FAILURE


def why_not(error: LineError, port: str) -> str:
    if error.failure is not LineFailure.BUSY:
        return str(error)
    return f"{error}. If it is the gateway, type:  tidegate serial release {port} --for 10m"


def failure_code(error: LineError) -> ExitCode:
    is_permission = error.failure is LineFailure.PERMISSION
    return ExitCode.PERMISSION if is_permission else ExitCode.UNAVAILABLE


def heard_described(options: PortOptions, heard: LineContent) -> Iterator[tuple[str, str]]:
    yield "port", f"{options.port} at {options.baud} baud"
    yield "heard", heard.text
    for line in heard.lines:
        yield "", f"  {line}"
    yield "advice", heard.advice


def heard_as_json(options: PortOptions, heard: LineContent) -> dict[str, Any]:
    told = asdict(heard) | {"what": heard.what.value, "lines": list(heard.lines)}
    return {"port": options.port, "baud": options.baud, **told}
