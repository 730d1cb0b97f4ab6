"""Reading the generator's output, and putting several runs together."""

import json
from typing import Any

import pytest

from tests.bench.measurement import Faults, Figures, Measurement, MeasurementError, combine


def times(count: int = 10, near: float = 0.0) -> dict[str, Any]:
    return {
        "count": count,
        **{"p50": 1000, "p95": 2000, "p99": 3000, "p999": 4000, "max": 5000},
        "share_near_40ms": near,
    }


def process(cpu_us: float, rss_kib: int = 2048) -> dict[str, Any]:
    return {
        "cpu_s": 1.0,
        "cpu_us_per_message": cpu_us,
        "cpu_percent": 0.5,
        "kernel_share": 0.25,
        "connect_cpu_us_per_client": 3.0,
        "rss_kib": {"start": 1024, "connected": rss_kib, "end": rss_kib},
        "pss_kib": {"start": 900, "connected": 1900, "end": 1900},
        "rss_kib_per_client": 10.24,
        "written_bytes_per_message": 0.0,
    }


def connected(ready: int) -> dict[str, Any]:
    counts = {"ready": ready, "refused": 0, "timed_out": 0, "retries": 4}
    return {**counts, "us": times(), "seconds": 0.5}


def traffic(**changed: Any) -> str:
    said = {
        **{"mode": "pub", "clients": 100, "connect": connected(100), "rate_per_s": 5000.0},
        **{"lost": 0, "lost_acknowledged": 0, "duplicates": 0, "out_of_order": 0},
        **{"publish_retries": 0, "given_up": 0, "rejected": 0, "disconnected": 0},
        **{"malformed": 0, "udp_receive_buffer_errors": 0, "generator_cpu_us_per_message": 2.0},
        **{"end_to_end_us": times(near=0.002), "acknowledge_us": times(near=0.001)},
        **{"gateway": process(10.0), "broker": process(4.0)},
    }
    return json.dumps({**said, **changed})


def outage(**changed: Any) -> str:
    seen = {
        **{"seconds": 4.0, "acknowledge_us": times()},
        **{"backlog": 8000, "drain_seconds": 0.1, "drain_rate_per_s": 80000.0},
    }
    return traffic(outage={**seen, **changed}, broker=process(0.0))


def restart() -> str:
    return json.dumps({**json.loads(traffic()), "mode": "restart", "restart_s": 0.75})


def waking(**changed: Any) -> str:
    wake = {
        **{"rounds": 5, "longest_us": 250_000.0, "answered_us": times(), "early": 0},
        **{"gateway_cpu_us_per_client": 150.0},
    }
    return json.dumps({**json.loads(traffic()), "mode": "wake", "wake": {**wake, **changed}})


def storm() -> str:
    said = {
        **{"mode": "storm", "clients": 100, "connect": connected(98), "disconnected": 1},
        **{"malformed": 0, "udp_receive_buffer_errors": 0},
        **{"gateway": process(0.0), "broker": process(0.0)},
    }
    return json.dumps(said)


def test_a_run_of_traffic_gives_figures_and_faults() -> None:
    run = Measurement.from_output(traffic(lost=3, duplicates=2, out_of_order=1))
    assert run.figures.rate_per_s == 5000
    assert run.figures.gateway_cpu_us == 10
    assert run.figures.broker_cpu_us == 4
    assert run.figures.gateway_to_broker == 2.5
    assert run.figures.kernel_cpu_us == 2.5
    assert run.figures.end_to_end_p50_us == 1000
    assert run.figures.acknowledge_p999_us == 4000
    assert run.figures.gateway_rss_end_kib == 2048
    assert run.figures.share_near_40ms == 0.002
    assert run.faults == Faults(lost=3, duplicates=2, out_of_order=1, connect_retries=4)


def test_the_larger_share_near_40_ms_counts() -> None:
    run = Measurement.from_output(traffic(acknowledge_us=times(near=0.5)))
    assert run.figures.share_near_40ms == 0.5
    nothing = times(count=0)
    run = Measurement.from_output(traffic(end_to_end_us=nothing, acknowledge_us=nothing))
    assert run.figures.share_near_40ms is None


def test_what_was_not_measured_is_none_and_not_zero() -> None:
    run = Measurement.from_output(
        traffic(
            mode="direct",
            connect=connected(0),
            gateway=process(0.0, rss_kib=0),
            acknowledge_us=times(count=0),
        )
    )
    assert run.figures.gateway_cpu_us is None
    assert run.figures.kernel_cpu_us is None
    assert run.figures.gateway_to_broker is None
    assert run.figures.acknowledge_p50_us is None
    assert run.figures.gateway_rss_end_kib is None
    assert run.faults.not_connected == 0


def test_a_storm_gives_clients_per_second_and_who_is_missing() -> None:
    run = Measurement.from_output(storm())
    assert run.figures.rate_per_s == 98 / 0.5
    assert run.figures.connect_cpu_us == 3.0
    assert run.figures.idle_cpu_percent == 0.5
    assert run.figures.gateway_rss_kib_per_client == 10.24
    assert run.faults.not_connected == 2
    assert run.faults.disconnected == 1


def test_an_outage_gives_the_times_meanwhile_and_how_fast_it_was_drained() -> None:
    figures = Measurement.from_output(outage()).figures
    assert figures.away_s == 4.0
    assert (figures.away_acknowledge_p50_us, figures.away_acknowledge_p99_us) == (1000, 3000)
    assert (figures.backlog, figures.drain_rate_per_s) == (8000, 80000)
    figures = Measurement.from_output(
        outage(acknowledge_us=times(count=0), drain_rate_per_s=0)
    ).figures
    assert (figures.away_acknowledge_p99_us, figures.drain_rate_per_s) == (None, None)


def test_a_restart_gives_its_time_and_who_had_not_connected_before_it() -> None:
    run = Measurement.from_output(restart())
    assert run.figures.restart_s == 0.75
    assert run.faults == Faults(connect_retries=4)


def test_sleepers_that_wake_give_the_longest_time_and_who_was_woken_by_a_message() -> None:
    run = Measurement.from_output(waking(early=2))
    assert (run.figures.wake_s, run.figures.wake_p99_us) == (0.25, 3000)
    assert run.figures.wake_cpu_us == 150.0
    assert run.faults.early == 2


def test_the_longest_wait_of_several_runs_is_the_longest() -> None:
    runs = [
        Measurement(Figures(acknowledge_max_us=longest, wake_s=longest / 1e6), Faults())
        for longest in (3.0, 9.0, 1.0)
    ]
    assert combine(runs).figures == Figures(acknowledge_max_us=9.0, wake_s=9e-6)


def test_what_was_written_is_told_for_each_message_and_reading() -> None:
    figures = Measurement.from_output(traffic(journal_bytes=121.0)).figures
    assert (figures.written_bytes, figures.journal_bytes) == (0.0, 121.0)


def test_a_row_beside_another_has_its_share_of_the_rate() -> None:
    half, whole = (Measurement(Figures(rate_per_s=rate), Faults()) for rate in (100, 200))
    assert half.beside(whole).figures.rate_share == 0.5
    assert half.beside(None).figures.rate_share is None


def test_the_echo_gives_its_cpu_time() -> None:
    run = Measurement.from_output('{"mode":"echo","rate_per_s":9,"cpu_us_per_message":1.5}')
    assert (run.figures.rate_per_s, run.figures.gateway_cpu_us) == (9, 1.5)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mode":"pub"}', '{"mode":"storm"}'])
def test_output_that_cannot_be_read_is_told(text: str) -> None:
    with pytest.raises(MeasurementError, match="cannot be read"):
        Measurement.from_output(text)


def test_several_runs_give_median_figures_and_the_worst_faults() -> None:
    runs = [
        Measurement(Figures(rate_per_s=rate, gateway_cpu_us=cpu), Faults(lost=lost))
        for rate, cpu, lost in ((300, 9.0, 0), (100, 1.0, 5), (200, 2.0, 0))
    ]
    together = combine(runs)
    assert together.figures.rate_per_s == 200
    assert together.figures.gateway_cpu_us == 2.0
    assert together.faults.lost == 5


def test_a_figure_that_one_run_lacks_is_the_median_of_the_others() -> None:
    together = combine(
        [
            Measurement(Figures(rate_per_s=4), Faults()),
            Measurement(Figures(), Faults()),
            Measurement(Figures(rate_per_s=2), Faults()),
        ]
    )
    assert together.figures.rate_per_s == 3
    assert together.figures.gateway_cpu_us is None


def test_no_run_at_all_is_told() -> None:
    with pytest.raises(MeasurementError, match="no run"):
        combine([])
