"""`tidegate VERB ...`: finds the verb, lets it declare its arguments, runs it.

Only the module of the verb that is used gets imported. Nobody who presses Ctrl-C or closes a pipe
is shown a traceback.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from gateway.cli import output
from gateway.cli.exit_codes import MEANING, ExitCode
from gateway.cli.verbs import VERBS, Verb
from gateway.version import version


def main(argv: Sequence[str] | None = None) -> int:
    output.prepare()
    try:
        code = _obey(sys.argv[1:] if argv is None else argv)
        output.finish()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        output.abandon()
        return ExitCode.FAILURE
    except output.OutputError as error:
        output.abandon()
        output.complain(f"tidegate: the answer cannot be written: {error}")
        return ExitCode.FAILURE
    return code


def _obey(argv: Sequence[str]) -> int:
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    parser = _parser(chosen)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:  # --help, or a usage error that argparse has explained
        return end.code if isinstance(end.code, int) else ExitCode.USAGE
    if arguments.version:
        output.say(f"tidegate {version()}")
        return ExitCode.OK
    if arguments.verb is None:
        parser.print_help(sys.stderr)
        return ExitCode.USAGE
    code = import_module(f"gateway.cli.{arguments.verb}").run(arguments)
    assert isinstance(code, int)
    return code


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="MQTT-SN gateway: from battery sensors to an MQTT 5 broker and back.",
        epilog=f"exit codes:\n{codes}\n\ntidegate VERB --help says more, with an example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="say which version this is")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb in VERBS:
        _add_verb(verbs, verb, chosen == verb.name)
    return parser


def _add_verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", verb: Verb, is_chosen: bool
) -> None:
    parser = verbs.add_parser(
        verb.name,
        help=verb.help,
        description=f"{verb.help[0].upper()}{verb.help[1:]}.",
        epilog=f"example:\n  {verb.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if is_chosen:
        import_module(verb.module).add_arguments(parser)


if __name__ == "__main__":
    sys.exit(main())
