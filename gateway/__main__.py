"""`tidegate VERB ...`: finds the verb, lets it declare its arguments, runs it.

Only the module of the verb that is used gets imported. Nobody who presses Ctrl-C, closes a pipe or
gives the process too little of something is shown a traceback.
"""

import sys

from gateway.app.service.hangup import outlive_reload

if sys.argv[1:2] == ["run"]:
    outlive_reload()  # before the rest is even imported

from collections.abc import Sequence
from importlib import import_module

from gateway.app.exit_codes import ExitCode
from gateway.cli import output
from gateway.cli.parsing import parser_for
from gateway.cli.verbs import VERBS
from gateway.host import inherited
from gateway.host.version import version


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:
        inherited.make_fit()
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
        output.print_error(f"tidegate: the answer cannot be written: {error}")
        return ExitCode.FAILURE
    except (MemoryError, OSError, RuntimeError, ImportError) as error:
        return _refused(error)
    finally:
        output.close_quietly()
    return code


def _refused(error: Exception) -> int:
    """Whatever verb it was: a limit of the process is named, all else is ours."""
    from gateway.host import limits

    limit = limits.named(error)
    if limit is None:
        raise error
    output.print_error(f"tidegate: {limit}")
    return ExitCode.UNAVAILABLE


def _obey(argv: Sequence[str]) -> int:
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    parser = parser_for(chosen)
    try:
        with output.failures_named():
            arguments = parser.parse_args(argv)
    except SystemExit as end:  # --help, or a usage error that argparse has explained
        return end.code if isinstance(end.code, int) else ExitCode.USAGE
    if arguments.version:
        output.print_line(f"tidegate {version()}")
        return ExitCode.OK
    if arguments.verb is None:
        parser.print_help(sys.stderr)
        return ExitCode.USAGE
    verb = next(verb for verb in VERBS if verb.name == arguments.verb)
    code = import_module(verb.module).run(arguments)
    assert isinstance(code, int)
    return code


if __name__ == "__main__":
    sys.exit(main())
