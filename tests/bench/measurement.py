"""What one run of the load generator said, and what several runs of a row say together.

Two kinds of number that must not be mixed: a *figure* (rate, CPU, latency) wanders with the
machine, so several runs give its median; a *fault* (lost, out of order) must not be there at all,
so several runs give the worst of it. A median would hide the one run that lost something, and so
would one of the longest waits. The share of times near 40 ms is a figure: a step is there in every
run, a stall of the machine in one.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self


class MeasurementError(Exception):
    """A run that gave no figures; the text says why."""


@dataclass(frozen=True, slots=True)
class Figures:
    """None: this kind of run has no such figure."""

    rate_per_s: float | None = None
    gateway_cpu_us: float | None = None
    kernel_cpu_us: float | None = None  # of the gateway's, what the kernel spent for it
    broker_cpu_us: float | None = None
    gateway_to_broker: float | None = None
    generator_cpu_us: float | None = None
    end_to_end_p50_us: float | None = None
    end_to_end_p95_us: float | None = None
    end_to_end_p99_us: float | None = None
    end_to_end_p999_us: float | None = None
    end_to_end_max_us: float | None = None
    acknowledge_p50_us: float | None = None
    acknowledge_p95_us: float | None = None
    acknowledge_p99_us: float | None = None
    acknowledge_p999_us: float | None = None
    acknowledge_max_us: float | None = None
    # Of end to end and of PUBACK, whichever is larger.
    share_near_40ms: float | None = None
    connect_s: float | None = None
    connect_cpu_us: float | None = None
    idle_cpu_percent: float | None = None
    gateway_rss_start_kib: float | None = None
    gateway_rss_end_kib: float | None = None
    gateway_pss_end_kib: float | None = None
    gateway_rss_kib_per_client: float | None = None
    # Of a message. What the kernel counts: whole pages, of large files many at a time; so it tells
    # whether anything was written, and not how much.
    written_bytes: float | None = None
    # Of a reading that was written: records and their heads, as the gateway counts them.
    journal_bytes: float | None = None
    away_s: float | None = None
    away_acknowledge_p50_us: float | None = None
    away_acknowledge_p99_us: float | None = None
    backlog: float | None = None
    drain_rate_per_s: float | None = None
    restart_s: float | None = None
    # Of sleepers that woke up together: until the last has its message and PINGRESP.
    wake_s: float | None = None
    wake_p50_us: float | None = None
    wake_p99_us: float | None = None
    wake_cpu_us: float | None = None  # of the gateway, for each client
    # Of the rate of another row.
    rate_share: float | None = None


# Of several runs the longest, not the median.
LONGEST = frozenset({"end_to_end_max_us", "acknowledge_max_us", "wake_s"})


@dataclass(frozen=True, slots=True)
class Faults:
    lost: float = 0
    early: float = 0  # came to somebody asleep
    lost_acknowledged: float = 0
    duplicates: float = 0
    out_of_order: float = 0
    not_connected: float = 0
    connect_retries: float = 0
    publish_retries: float = 0
    given_up: float = 0
    rejected: float = 0
    disconnected: float = 0
    malformed: float = 0
    udp_receive_buffer_errors: float = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    figures: Figures
    faults: Faults

    @classmethod
    def from_output(cls, text: str) -> Self:
        """`text` is what the generator wrote to stdout."""
        try:
            said = json.loads(text)
            mode = said["mode"]
            if mode == "echo":
                return cls(_echo_figures(said), Faults())
            if mode == "storm":
                return cls(_storm_figures(said), _storm_faults(said))
            if mode == "wake":
                return cls(_wake_figures(said), _traffic_faults(said))
            if mode == "restart":
                return cls(Figures(restart_s=said["restart_s"]), _storm_faults(said))
            return cls(_traffic_figures(said), _traffic_faults(said))
        except (ValueError, KeyError, TypeError) as error:
            raise MeasurementError(
                f"the load generator's output cannot be read ({error!r}): {text[:200]!r}"
            ) from error

    def beside(self, other: Self | None) -> Self:
        """With the share of the other's rate."""
        if other is None or not other.figures.rate_per_s or self.figures.rate_per_s is None:
            return self
        share = self.figures.rate_per_s / other.figures.rate_per_s
        return replace(self, figures=replace(self.figures, rate_share=share))


def combine(runs: Sequence[Measurement]) -> Measurement:
    if not runs:
        raise MeasurementError("there is no run to combine")
    medians = {
        field.name: _together(field.name, [getattr(run.figures, field.name) for run in runs])
        for field in fields(Figures)
    }
    worst = {
        field.name: max(getattr(run.faults, field.name) for run in runs) for field in fields(Faults)
    }
    return Measurement(Figures(**medians), Faults(**worst))


def _together(name: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if name in LONGEST else statistics.median(known)


def _echo_figures(said: Mapping[str, Any]) -> Figures:
    return Figures(
        rate_per_s=said["rate_per_s"],
        # The echo stands where a gateway would.
        gateway_cpu_us=said["cpu_us_per_message"],
    )


def _memory_figures(said: Mapping[str, Any]) -> dict[str, float | None]:
    gateway = said["gateway"]
    measured = gateway["rss_kib"]["end"] > 0
    if not measured:
        return {}
    return {
        "gateway_rss_start_kib": gateway["rss_kib"]["start"],
        "gateway_rss_end_kib": gateway["rss_kib"]["end"],
        "gateway_pss_end_kib": gateway["pss_kib"]["end"],
        "gateway_rss_kib_per_client": gateway["rss_kib_per_client"],
        "written_bytes": gateway["written_bytes_per_message"],
    }


def _outage_figures(said: Mapping[str, Any]) -> dict[str, float | None]:
    outage = said.get("outage")
    if outage is None:
        return {}
    times = outage["acknowledge_us"]
    return {
        "away_s": outage["seconds"],
        "away_acknowledge_p50_us": times["p50"] if times["count"] else None,
        "away_acknowledge_p99_us": times["p99"] if times["count"] else None,
        "backlog": outage["backlog"],
        "drain_rate_per_s": outage["drain_rate_per_s"] or None,
    }


def _storm_figures(said: Mapping[str, Any]) -> Figures:
    connect = said["connect"]
    return Figures(
        rate_per_s=connect["ready"] / connect["seconds"] if connect["seconds"] else None,
        connect_s=connect["seconds"],
        connect_cpu_us=said["gateway"]["connect_cpu_us_per_client"],
        idle_cpu_percent=said["gateway"]["cpu_percent"],
        **_memory_figures(said),
    )


def _wake_figures(said: Mapping[str, Any]) -> Figures:
    wake = said["wake"]
    return Figures(
        wake_s=wake["longest_us"] / 1e6,
        wake_p50_us=wake["answered_us"]["p50"],
        wake_p99_us=wake["answered_us"]["p99"],
        wake_cpu_us=wake["gateway_cpu_us_per_client"],
        **_memory_figures(said),
    )


def _traffic_figures(said: Mapping[str, Any]) -> Figures:
    gateway_us = said["gateway"]["cpu_us_per_message"] or None
    broker_us = said["broker"]["cpu_us_per_message"] or None
    return Figures(
        rate_per_s=said["rate_per_s"],
        gateway_cpu_us=gateway_us,
        kernel_cpu_us=gateway_us * said["gateway"]["kernel_share"] if gateway_us else None,
        broker_cpu_us=broker_us,
        gateway_to_broker=gateway_us / broker_us if gateway_us and broker_us else None,
        generator_cpu_us=said["generator_cpu_us_per_message"],
        **_latencies("end_to_end", said["end_to_end_us"]),
        **_latencies("acknowledge", said["acknowledge_us"]),
        share_near_40ms=_share_near_40ms(said["end_to_end_us"], said["acknowledge_us"]),
        journal_bytes=said.get("journal_bytes"),
        **_outage_figures(said),
        **_memory_figures(said),
    )


def _latencies(prefix: str, times: Mapping[str, Any]) -> dict[str, float | None]:
    if not times["count"]:
        return {}
    return {f"{prefix}_{name}_us": times[name] for name in ("p50", "p95", "p99", "p999", "max")}


def _share_near_40ms(*times: Mapping[str, Any]) -> float | None:
    shares = [each["share_near_40ms"] for each in times if each["count"]]
    return max(shares, default=None)


def _storm_faults(said: Mapping[str, Any]) -> Faults:
    return Faults(
        not_connected=said["clients"] - said["connect"]["ready"],
        connect_retries=said["connect"]["retries"],
        disconnected=said["disconnected"],
        malformed=said["malformed"],
        udp_receive_buffer_errors=said["udp_receive_buffer_errors"],
    )


def _traffic_faults(said: Mapping[str, Any]) -> Faults:
    # The yardstick without a gateway has no clients that could fail to connect.
    expected = 0 if said["mode"] == "direct" else said["clients"]
    return Faults(
        lost=said["lost"],
        early=said["wake"]["early"] if "wake" in said else 0,
        lost_acknowledged=said["lost_acknowledged"],
        duplicates=said["duplicates"],
        out_of_order=said["out_of_order"],
        not_connected=expected - said["connect"]["ready"],
        connect_retries=said["connect"]["retries"],
        publish_retries=said["publish_retries"],
        given_up=said["given_up"],
        rejected=said["rejected"],
        disconnected=said["disconnected"],
        malformed=said["malformed"],
        udp_receive_buffer_errors=said["udp_receive_buffer_errors"],
    )
