"""Runs what a page says, in the page's order, and keeps what came of each block."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.docs import root
from tests.docs.blocks import REPOSITORY, Block, blocks_of, state_of
from tests.docs.commands import script_of
from tests.docs.kinds import IN_ROOT, Kind, kind_of
from tests.docs.outputs import difference

# The reason of a block whose last command does not end by itself: it is ended as by Ctrl-C.
FOR_EVER = "for ever"
FOR_EVER_S = 6
# Between the commands of a console, each with its answer.
_MARK = "\x1e"
_runners = ThreadPoolExecutor(max_workers=3)
_begun: dict[str, Future[dict[int, root.Outcome]]] = {}


def fault_of(block: Block) -> str | None:
    """What is wrong with it where it is run. Raises OSError where there is no root of its own."""
    outcome = outcomes_of(block.page)[block.line]
    return judged(block, outcome)


def begin(pages: Iterable[str]) -> None:
    """Several at a time, as most of their time is waiting."""
    for page in pages:
        if page not in _begun:
            _begun[page] = _runners.submit(_run, page)


def outcomes_of(page: str) -> dict[int, root.Outcome]:
    begin([page])
    return _begun[page].result()


def _run(page: str) -> dict[int, root.Outcome]:
    path = REPOSITORY / page
    blocks = [block for block in blocks_of(path) if kind_of(block) in IN_ROOT]
    ran = root.run(state_of(path.read_text()), [script_for(block) for block in blocks])
    return {block.line: outcome for block, outcome in zip(blocks, ran, strict=True)}


def judged(block: Block, outcome: root.Outcome) -> str | None:
    if outcome.code:
        return f"exit code {outcome.code}:\n{outcome.said.replace(_MARK, '')}"
    if kind_of(block) is not Kind.CONSOLE:
        return None
    said = outcome.said.split(_MARK)[1:]
    for command, (shown, heard) in enumerate(zip(answers_in(block.text), said, strict=True), 1):
        if shown.strip() and (found := difference(shown, heard)):
            return f"command {command}: {found}"
    return None


def answers_in(text: str) -> list[str]:
    """What a console shows behind each of its commands."""
    answers: list[str] = []
    goes_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            answers.append("")
        elif not goes_on:
            answers[-1] += f"{line}\n"
        goes_on = line.endswith("\\") and (line.startswith("$ ") or goes_on)
    return answers


def script_for(block: Block) -> str:
    kind = kind_of(block)
    if kind in (Kind.PYTHON, Kind.MICROPYTHON):
        return _python(block, kind)
    before = f"{block.before}\n" if block.before else ""
    if kind is Kind.CRON:
        return before + _cron(block.text)
    if kind is Kind.CONSOLE:
        commands = script_of(block).replace("\\\n", " ").splitlines()
        said = "".join(f"printf '\\036'\n{line}\n" for line in commands)
        return f"set -u\n{{ {before or ':'}\n}} >/dev/null\n{said}"
    script = f"set -euo pipefail\n{before}{block.text}"
    return _for_ever(script) if block.reason == FOR_EVER else script


def _for_ever(script: str) -> str:
    return f"""\
cat >/run/block.sh <<'END OF BLOCK'
{script}
END OF BLOCK
timeout -s INT {FOR_EVER_S} bash /run/block.sh
code=$?
[[ $code == 124 ]] || exit $code
"""


def _python(block: Block, kind: Kind) -> str:
    text = f"{block.before}\n{block.text}"
    if any(line.startswith("await ") for line in block.text.splitlines()):
        body = textwrap.indent(text, "    ")
        text = f"import asyncio\n\nasync def main():\n{body}\nasyncio.run(main())\n"
    program = ".venv/bin/python"
    path = "$CLONE:$CLONE/firmware"
    if kind is Kind.MICROPYTHON:
        program = "$(command -v micropython || echo .venv/bin/micropython)"
        path = "$CLONE/firmware:$CLONE/tests/docs/boards:.frozen"
    return (
        f"export MICROPYPATH={path} PYTHONPATH={path}\n"
        f"cat >block.py <<'END OF BLOCK'\n{text}\nEND OF BLOCK\nexec {program} block.py\n"
    )


def _cron(text: str) -> str:
    """Its one line as cron runs it: by sh, with cron's PATH, and % only behind a backslash."""
    (line,) = (
        line for line in text.splitlines() if line and not line.startswith(("#", "PATH", "MAILTO"))
    )
    command = line.split(None, 6)[6].replace("\\%", "%")
    if "%" in line.replace("\\%", ""):
        return "echo 'cron ends a command at a percent sign' && exit 1"
    path = next(
        (line[5:] for line in text.splitlines() if line.startswith("PATH=")), "/usr/bin:/bin"
    )
    return f"cat >cron.sh <<'END OF BLOCK'\n{command}\nEND OF BLOCK\nPATH={path} sh cron.sh\n"
