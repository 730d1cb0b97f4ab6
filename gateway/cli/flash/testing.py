"""`tidegate flash test`: whether a board has what it needs, one line for each question."""

import argparse
import ast
from collections.abc import Iterator

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.boards import Target, target_of
from gateway.cli.flash.contact import start_and_wait
from gateway.cli.flash.reporting import TerminalReport
from gateway.cli.output import print_line
from gateway.flashing.console import Console, SnippetError
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.program import SECRETS, STARTS

FREE_OCTETS_MIN = {"tiny": 2_000, "node": 32_000}
NEEDED = {"tiny": ("tiny",), "node": ("settings.json",)}

Answer = tuple[bool, str]


def test(arguments: argparse.Namespace, report: TerminalReport) -> int:
    """1 if something is missing. Raises FlashError when no board can be asked."""
    target = target_of(arguments, report, by_port=True)
    if target.port is None or target.identity is None:
        raise FlashError(Failure.ABSENT, "no MicroPython answers, so there is nothing to be tested")
    is_ok = True
    with Console(target.port.device) as console:
        console.stop()
        for passed, text in _answers(console, target):
            is_ok = is_ok and passed
            print_line(f"{'ok' if passed else 'MISSING':<8}{text}")
        name = getattr(arguments, "name", None)
        if name is None or arguments.dry_run:
            console.leave()
            return ExitCode.OK if is_ok else ExitCode.FAILURE
    start_and_wait(arguments, name, target, report)
    return ExitCode.OK if is_ok else ExitCode.FAILURE


def _answers(console: Console, target: Target) -> Iterator[Answer]:
    identity = target.identity
    assert identity is not None
    kind = target.kind
    least = ".".join(map(str, kind.micropython_min))
    yield identity.version >= kind.micropython_min, f"{identity}; {least} or newer"
    yield bool(kind.machine.search(identity.machine)), f"a {kind.title}"
    free = int(_answer(console, "import gc\ngc.collect()\nprint(gc.mem_free())") or 0)
    enough = FREE_OCTETS_MIN[kind.program]
    yield free >= enough, f"{free} bytes of memory free; {enough} or more"
    there = ast.literal_eval(_answer(console, "import os\nprint(os.listdir())") or "[]")
    if kind.program == "tiny" and _script_in_flash(console):
        yield True, "its program, in flash"
        return
    for path in (*NEEDED[kind.program], STARTS):
        yield path in there, f"/{path}"
    if SECRETS in there:
        yield True, f"/{SECRETS}"


def _script_in_flash(console: Console) -> bool:
    snippet = "import machine\nprint(machine.mem8[0x3e000], machine.mem8[0x3e001])"
    return _answer(console, snippet) == "77 80"


def _answer(console: Console, snippet: str) -> str:
    try:
        return console.ask(snippet).strip()
    except SnippetError:
        return ""
