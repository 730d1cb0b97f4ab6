"""`python -m spark_ingest VERB ...`: finds the verb, lets it declare its arguments, runs it.

Nobody who mistypes, presses Ctrl-C or closes a pipe is shown a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from spark_ingest.cli.exit_codes import MEANING, ExitCode, VerbError, print_error

VERBS = (
    "collect",
    "run",
    "backfill",
    "compact",
    "gaps",
    "doctor",
    "init",
    "check",
    "unit",
    "segments",
    "report",
    "demo",
)


def main(argv: Sequence[str] | None = None) -> int:
    modules = {verb: import_module(f"spark_ingest.cli.{verb}") for verb in VERBS}
    arguments = _parser(modules).parse_args(argv)
    try:
        code = modules[arguments.verb].run(arguments)
        sys.stdout.flush()
    except VerbError as error:
        print_error(str(error))
        return error.code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Else the interpreter flushes once more at its end, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILURE
    assert isinstance(code, int)
    return code


def _parser(modules: dict[str, ModuleType]) -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())
    parser = argparse.ArgumentParser(
        prog="python -m spark_ingest",
        description="From the MQTT 5 broker to tables: nothing acknowledged is lost.",
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    for verb, module in modules.items():
        inner = verbs.add_parser(
            verb,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(inner)
    return parser


if __name__ == "__main__":
    sys.exit(main())
