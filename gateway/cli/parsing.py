"""The parser of the command line, with one verb's arguments in it, or with all of them.

Only the module of the verb that is used gets imported; all of them are for who writes the manual.
"""

import argparse
from importlib import import_module

from gateway.app.exit_codes import MEANING
from gateway.cli.verbs import VERBS, Verb


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Python's own forgets how far verbs are indented, and breaks the line of the longest one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = max(len(verb.name) for verb in VERBS) + 4


def parser_for(chosen: str | None) -> argparse.ArgumentParser:
    return _parser({chosen})


def whole_parser() -> argparse.ArgumentParser:
    return _parser({verb.name for verb in VERBS})


def _parser(chosen: set[str | None]) -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items())
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="MQTT-SN gateway: from battery sensors to an MQTT 5 broker and back.",
        epilog=f"exit codes:\n{codes}\n\ntidegate VERB --help says more, with an example.",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="say which version this is")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for verb in VERBS:
        _add_verb(verbs, verb, verb.name in chosen)
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
