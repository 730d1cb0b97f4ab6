"""`python -m hil`: scenarios on boards, and a report. docs/hil.md describes it."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
import time
from pathlib import Path

from hil.boards import inventory
from hil.report.writing import write
from hil.rig.campaign import JOBS, Campaign, perform
from hil.rig.mosquitto import BrokerError, find_mosquitto
from hil.rig.run import Outcome, Result
from hil.rig.stage import Elsewhere
from hil.scenarios import scenario
from hil.scenarios.mistakes import MistakesError
from hil.scenarios.scenario import Scenario

OK, FAILED, USAGE, UNAVAILABLE, CONFIGURATION = 0, 1, 2, 69, 78
REPORT = Path("build", "hil")
PORT_MAX, JOBS_MAX = 65_535, 100
MARKS = {
    Outcome.PASSED: "ok",
    Outcome.FAILED: "FAILED",
    Outcome.NOT_RUN: "not run",
    Outcome.NOT_FOR: "not for it",
}


class UsageError(Exception):
    """What was asked for does not exist; the text says what does."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m hil",
        description="Run scenarios on boards, real and simulated, and write a report.",
        epilog="exit codes: 0 all passed, 1 something failed, 2 usage, 69 something is not "
        "installed, 78 a file has mistakes",
    )
    made.add_argument(
        "--bench", type=Path, default=inventory.DEFAULT, metavar="FILE",
        help="which boards there are; default: those that need no hardware",
    )  # fmt: skip
    made.add_argument("--scenarios", type=Path, default=scenario.FOLDER, metavar="FOLDER",
                      help="of *.toml; default: those that come with it")  # fmt: skip
    made.add_argument("--scenario", action="append", default=[], metavar="NAME",
                      help="only this one; may be given again")  # fmt: skip
    made.add_argument("--quick", action="store_true", help="only scenarios with the tag quick")
    made.add_argument("--board", action="append", default=[], metavar="ID",
                      help="only this one; may be given again")  # fmt: skip
    made.add_argument("--require", action="append", default=[], metavar="ID",
                      help="fail if this board is not there; may be given again")  # fmt: skip
    made.add_argument("--seed", type=int, help="of all dice; default: another one each time")
    made.add_argument("--jobs", type=_jobs, default=JOBS, metavar="N",
                      help=f"runs at once; default: {JOBS}")  # fmt: skip
    made.add_argument("--report", type=Path, default=REPORT, metavar="FOLDER",
                      help=f"default: {REPORT}")  # fmt: skip
    made.add_argument("--keep", action="store_true",
                      help="logs and flash of runs that passed as well")  # fmt: skip
    made.add_argument("--gateway", type=_address, metavar="HOST:PORT",
                      help="one that runs already, with --broker")  # fmt: skip
    made.add_argument("--broker", type=_address, metavar="HOST:PORT", help="of that gateway")
    made.add_argument("--gateway-command", default="", metavar="COMMAND",
                      help='instead of "python -m gateway"')  # fmt: skip
    made.add_argument("--list", action="store_true", help="show boards and scenarios, run nothing")
    return made


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got {text!r}")
    if not 0 < int(port[:6]) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to {PORT_MAX}, got {port[:20]!r}")
    return host, int(port)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= JOBS_MAX:
        raise argparse.ArgumentTypeError(f"expected 1 to {JOBS_MAX}, got {text[:20]!r}")
    return int(text)


def main() -> int:
    arguments = parser().parse_args()
    try:
        campaign = campaign_of(arguments)
        if arguments.list:
            show(campaign)
            return OK
        find_mosquitto()
        return asyncio.run(run(campaign, arguments.report))
    except MistakesError as mistakes:
        sys.stderr.write(f"{mistakes}\n")
        return CONFIGURATION
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    except BrokerError as error:
        sys.stderr.write(f"{error}\n")
        return UNAVAILABLE
    except (KeyboardInterrupt, asyncio.CancelledError):
        return FAILED


def campaign_of(arguments: argparse.Namespace) -> Campaign:
    boards, scenarios = inventory.read(arguments.bench), scenario.scenarios_in(arguments.scenarios)
    board_names = [board.spec.id for board in boards]
    _require_known("board", [*arguments.board, *arguments.require], board_names)
    _require_known("scenario", arguments.scenario, [one.name for one in scenarios])
    if (arguments.gateway is None) != (arguments.broker is None):
        raise UsageError("--gateway and --broker go together")
    command = tuple(arguments.gateway_command.split())
    elsewhere = (
        None if arguments.gateway is None else Elsewhere(arguments.gateway, arguments.broker)
    )
    return Campaign(
        boards=[
            board for board in boards if not arguments.board or board.spec.id in arguments.board
        ],
        scenarios=[one for one in scenarios if _is_wanted(one, arguments)],
        seed=secrets.randbelow(10**9) if arguments.seed is None else arguments.seed,
        folder=(arguments.report / "runs").absolute(),
        bench=arguments.bench,
        jobs=arguments.jobs,
        required=frozenset(arguments.require),
        keeps_all=arguments.keep,
        elsewhere=elsewhere,
        **({"gateway_command": command} if command else {}),
    )


def _is_wanted(one: Scenario, arguments: argparse.Namespace) -> bool:
    if arguments.scenario:
        return one.name in arguments.scenario
    return one.is_quick or not arguments.quick


def _require_known(what: str, wanted: list[str], known: list[str]) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(f"no {what} {name!r}; there are {', '.join(known)}")


def show(campaign: Campaign) -> None:
    for board in campaign.boards:
        why_not = board.why_not
        state = "there" if why_not is None else f"not there: {why_not}"
        sys.stdout.write(
            f"{board.spec.id:20} {board.kind.title}, {board.spec.transport}: {state}\n"
        )
    sys.stdout.write("\n")
    for one in campaign.scenarios:
        sys.stdout.write(f"{one.name:20} {one.title}\n")


async def run(campaign: Campaign, folder: Path) -> int:
    began = time.monotonic()
    task = asyncio.current_task()
    assert task is not None
    # Asked to end it takes boards, gateways and brokers with it, as at Ctrl-C.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    sys.stdout.write(f"seed {campaign.seed}\n")
    results = await perform(campaign, print_result)
    seconds = time.monotonic() - began
    page = write(folder, campaign, results, seconds)
    print_summary(results, seconds)
    sys.stdout.write(f"{page}\n")
    is_failed = any(result.outcome is Outcome.FAILED for result in results)
    is_empty = not any(result.outcome is Outcome.PASSED for result in results)
    return FAILED if is_failed or is_empty else OK


def print_result(result: Result) -> None:
    if result.outcome is Outcome.NOT_FOR:
        return
    what = f"{result.seconds:5.1f} s" if result.seconds else ""
    sys.stdout.write(f"{MARKS[result.outcome]:8} {result.board:20} {result.scenario:22} {what}\n")
    for line in result.failures or ([result.why] if result.why else []):
        sys.stdout.write(f"         {line}\n")
    sys.stdout.flush()


def print_summary(results: list[Result], seconds: float) -> None:
    counts = [
        f"{count} {outcome}"
        for outcome in Outcome
        if (count := sum(result.outcome is outcome for result in results))
    ]
    sys.stdout.write(f"{', '.join(counts)} in {seconds:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main())
