"""What /healthz says of the parts that write to the disk and of what stands still, and what an
operator can do about it.

A journal that cannot be written at all is a failure: then readings are refused while the broker is
away. So is a standstill. Anything less is a doubt. Of all these only a standstill by the gateway's
own fault is one that a supervisor should act on: a restart makes no room on a disk, and a card that
is read-only stays so.
"""

from __future__ import annotations

from gateway.admin.durations import duration
from gateway.admin.part_numbers import (
    Cause,
    Condition,
    IngestNumbers,
    JournalNumbers,
    LogNumbers,
    MemoryNumbers,
    Standstill,
    StateNumbers,
)

_ADVICE = "the log says more, `tidegate doctor --disk` measures the disk"
_OF_CAUSE = {
    Cause.INSIDE: (
        "nothing outside is waited for, so this is a fault of the gateway: a restart helps; please "
        "report it with the log"
    ),
    Cause.DISK: (
        "the disk does not answer: `tidegate doctor --disk` measures it; a restart of the gateway "
        "does not help"
    ),
    Cause.BROKER: (
        "the broker is connected and does not answer: see its log and load; a restart of the "
        "gateway does not help"
    ),
}


def standstill(one: Standstill) -> str:
    return f"{one.what}; nothing of it has moved for {one.unmoved_s:.0f} s: {_OF_CAUSE[one.cause]}"


def journal_failure(numbers: JournalNumbers) -> str | None:
    """What is wrong, or None."""
    if numbers.condition is not Condition.FAILED:
        return None
    because = _because(numbers.error)
    return (
        f"the journal cannot be written{because}: readings are refused while the broker is away; "
        + _ADVICE
    )


def backlog_failure(numbers: JournalNumbers) -> str | None:
    """Why readings that are stored do not go on; None if they can be read."""
    if numbers.backlog_problem is None:
        return None
    return (
        f"{numbers.out_of_reach} readings on disk cannot be read ({numbers.backlog_problem}): put "
        "the file back, or make it readable for the gateway's user again"
    )


def journal_doubt(numbers: JournalNumbers) -> str | None:
    match numbers.condition:
        case Condition.DEGRADED:
            because = _because(numbers.error)
            return f"the journal goes on in a new segment after an error{because}: {_ADVICE}"
        case Condition.FULL:
            return (
                f"the journal is full, {numbers.depth} readings wait{_because(numbers.error)}: "
                "bring the broker back, make room on the disk, or raise journal.size_max"
            )
        case _:
            return None


def serving_problem(
    numbers: JournalNumbers, *, is_connected: bool, is_journal_used: bool, gives_way: bool
) -> str | None:
    """Why a reading that comes now could be neither stored nor forwarded, or None.

    `gives_way`: a full journal takes it all the same, and drops the oldest.
    """
    if is_connected:
        return None
    if not is_journal_used:
        return "the broker is away, and no reading is stored: journal.acknowledge"
    match numbers.condition:
        case Condition.FAILED:
            return "the broker is away, and the journal cannot be written"
        case Condition.FULL if not gives_way:
            return "the broker is away, and the journal is full"
        case _:
            return None


def state_doubt(numbers: StateNumbers) -> str | None:
    if numbers.condition is Condition.OK:
        return None
    return (
        f"sessions cannot be saved{_because(numbers.error)}, {numbers.pending_rows} rows wait: "
        f"they would not survive a restart; {_ADVICE}"
    )


def memory_doubt(numbers: MemoryNumbers) -> str | None:
    if not numbers.is_scarce:
        return None
    share = 100 * numbers.used_bytes / numbers.limit_bytes
    return (
        f"memory is scarce, {share:.0f} % of the {numbers.limit_bytes >> 20} MiB of "
        f"{numbers.place} are used: new sensors are refused. Free some, raise the limit, or lower "
        "those of [limits]"
    )


def log_doubt(numbers: LogNumbers) -> str | None:
    """A restart would not help: the one that holds the other end of the log is somebody else."""
    lost = f"{numbers.lost_lines} lines were lost"
    if numbers.blocked_s is not None:
        return (
            f"the log is not read, nothing could be written for {duration(numbers.blocked_s)}, "
            f"{lost}: a terminal stopped by Ctrl-S goes on with Ctrl-Q, a pipe when its reader "
            "reads. Sensors are served meanwhile"
        )
    if numbers.error is not None:
        return (
            f"the log cannot be written ({numbers.error}), {lost}: make room, or start the gateway "
            "with another place for its log. Sensors are served meanwhile"
        )
    return None


def ingest_doubts(numbers: IngestNumbers, gateway_name: str) -> list[str]:
    """What keeps readings from being ingested, or from being kept for that; none if all is well."""
    found = []
    topic = f"tidegate/ingest/{gateway_name}/ack/#"
    if numbers.refusal is not None:
        found.append(f"receipts are not heard, {numbers.refusal}: let it subscribe to {topic}")
    elif numbers.oldest_age_s is not None and numbers.oldest_age_s > 2 * numbers.timeout_s:
        kept = f"{numbers.kept} readings are kept, the oldest for {duration(numbers.oldest_age_s)}"
        if numbers.heard_age_s is None or numbers.heard_age_s > numbers.timeout_s:
            found.append(
                f"{kept}, and no ingest says that it has any: does one run with acknowledge.enabled"
                f", and may it publish to {topic}?"
            )
        else:
            found.append(
                f"{kept}, though an ingest is at work: do its collector.topics cover what sensors "
                "publish? Else set keep_until_ingested for the others only, with [[topic]]"
            )
    if numbers.bad_receipts:
        found.append(
            f"{numbers.bad_receipts} receipts were not believed, the log says why: who publishes "
            f"to {topic}?"
        )
    if numbers.unkept or numbers.given_up:
        found.append(
            f"{numbers.unkept + numbers.given_up} readings are at the broker alone, as the journal "
            "had no room to keep them: raise journal.size_max, or see to the ingest"
        )
    return found


def _because(error: str | None) -> str:
    return "" if error is None else f" ({error})"
