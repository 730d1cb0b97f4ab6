"""One run of one scenario: fresh broker, fresh gateway, the generator, and what ends meanwhile."""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from tests.bench import generator, trouble
from tests.bench.fleet import Fleet
from tests.bench.gateway_process import GatewayProcess
from tests.bench.line_relay import LineRelay
from tests.bench.measurement import Measurement, MeasurementError
from tests.bench.scenarios import Kind, Scenario

# What a run may take beyond its length: connecting (30 s), warming up, draining.
OVERHEAD_S_MAX = 90.0
JOURNAL_WRITTEN, JOURNAL_STORED = (
    "tidegate_journal_written_bytes_total",
    "tidegate_journal_stored_total",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The same for every run."""

    generator: Path
    gateway_command: tuple[str, ...]
    seconds: float
    mqtt_version: int


def run_once(scenario: Scenario, setting: Setting) -> str:
    """What the generator said, which is then known to be readable."""
    with ExitStack() as stack:
        if not scenario.needs_broker:
            output = generated(scenario, setting, [])
        elif not scenario.needs_gateway:
            broker = stack.enter_context(Mosquitto(scenario.broker_config))
            output = generated(scenario, setting, at_broker(broker, setting))
        else:
            output = _through_gateway(scenario, setting, stack)
    Measurement.from_output(output)
    return output


def generated(scenario: Scenario, setting: Setting, where: list[str]) -> str:
    arguments = [*scenario.arguments, *where]
    if scenario.lasts_as_asked:
        arguments += ["--seconds", f"{setting.seconds:g}"]
    return generator.run(setting.generator, arguments, setting.seconds + OVERHEAD_S_MAX)


def at_broker(broker: Mosquitto, setting: Setting) -> list[str]:
    return [
        "--broker-port",
        str(broker.port),
        "--broker-pid",
        str(broker.pid),
        "--mqtt-version",
        str(setting.mqtt_version),
    ]


def _through_gateway(scenario: Scenario, setting: Setting, stack: ExitStack) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
    broker = stack.enter_context(Mosquitto(scenario.broker_config))
    config, relay = scenario.gateway_config, None
    if scenario.line_octets_per_s is not None:
        line = folder / "line"
        relay = stack.enter_context(LineRelay(line, "hdlc", scenario.line_octets_per_s or None))
        config += f'[[serial]]\nport = "{line}"\nadvertise = false\n'
    gateway = stack.enter_context(
        GatewayProcess(
            setting.gateway_command,
            folder,
            broker.port,
            config,
            has_metrics=scenario.counts_journal,
            clients_max=scenario.clients_max,
        )
    )
    port = gateway.port
    if relay is not None:
        gateway.wait_for_log("listening for sensors on serial")
        port = relay.port
    where = ["--port", str(port), "--gateway-pid", str(gateway.pid)]
    try:
        if scenario.kind is Kind.OUTAGE:
            # Without its pid: it does not stay the same process.
            where += ["--broker-port", str(broker.port)]
            arguments = [*scenario.arguments, *where]
            timeout_s = scenario.away_s + OVERHEAD_S_MAX
            return trouble.through_an_outage(
                setting.generator, arguments, broker, scenario.away_s, timeout_s
            )
        fleet = None
        if scenario.sensors_beside:
            fleet = stack.enter_context(
                Fleet(folder, port, scenario.sensors_beside, scenario.interval_s)
            )
        output = generated(scenario, setting, [*where, *at_broker(broker, setting)])
        if fleet is not None:
            fleet.finish()
        if scenario.kind is Kind.RESTART:
            return trouble.restarted(gateway, output)
    except MeasurementError as error:
        raise MeasurementError(f"{error}\nthe gateway's log:\n{gateway.log_tail()}") from error
    return _with_journal_bytes(output, gateway) if scenario.counts_journal else output


def _with_journal_bytes(output: str, gateway: GatewayProcess) -> str:
    stored = gateway.metric(JOURNAL_STORED)
    written = gateway.metric(JOURNAL_WRITTEN)
    return json.dumps({**json.loads(output), "journal_bytes": written / stored if stored else None})
