"""The result, for people and for programs."""

from __future__ import annotations

from gateway.cli.simulate.fleet import Fleet

SCHEMA = "tidegate.simulate/1"


def summary_lines(fleet: Fleet, seconds: float) -> list[str]:
    tally, plan = fleet.tally, fleet.plan
    lines = [
        f"sensors    {len(tally.connected)} of {plan.sensors} connected, {seconds:.1f} s in all",
        f"readings   {tally.measured} measured; of QoS 1 and 2 {tally.acknowledged} acknowledged, "
        f"{fleet.unacknowledged()} not; {tally.dropped} dropped",
        f"latency    {_latency(fleet)}",
        f"messages   {tally.received} received",
        f"on the air {tally.retries} retries, {tally.reconnects} reconnects, "
        f"{tally.unreadable} unreadable",
    ]
    if plan.sleep:
        lines.append(f"sleep      {tally.naps} times, {plan.sleep} s at most")
    if plan.loss or plan.copies:
        air = fleet.air
        lines.append(f"dice       {air.lost} datagrams lost, {air.copied} copied")
    return lines


def summary_json(fleet: Fleet, seconds: float) -> dict[str, object]:
    tally, problem = fleet.tally, fleet.problem()
    return {
        "schema": SCHEMA,
        "ok": problem is None,
        "problem": problem,
        "seconds": round(seconds, 3),
        "sensors": fleet.plan.sensors,
        "connected": len(tally.connected),
        "measured": tally.measured,
        "acknowledged": tally.acknowledged,
        "unacknowledged": fleet.unacknowledged(),
        "dropped": tally.dropped,
        "retries": tally.retries,
        "reconnects": tally.reconnects,
        "received": tally.received,
        "naps": tally.naps,
        "unreadable": tally.unreadable,
        "latency_p50_ms": _ms(tally.quantile_s(0.5)),
        "latency_p99_ms": _ms(tally.quantile_s(0.99)),
        "latency_max_ms": _ms(tally.latency_s_max if tally.latencies_s else None),
        "datagrams_lost": fleet.air.lost,
        "datagrams_copied": fleet.air.copied,
    }


def _latency(fleet: Fleet) -> str:
    half, most = (_ms(fleet.tally.quantile_s(share)) for share in (0.5, 0.99))
    if half is None or most is None:
        return "nothing was acknowledged"
    longest = 1000 * fleet.tally.latency_s_max
    return (
        f"half within {half:.1f} ms, 99 % within {most:.1f} ms, longest {longest:.0f} ms, "
        "to the acknowledgement"
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
