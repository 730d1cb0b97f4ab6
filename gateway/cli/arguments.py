"""Arguments that several verbs have: actions of a verb, and the file of a password."""

import argparse
from pathlib import Path
from typing import TypeAlias

# What `add_subparsers` gives.
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_action(
    actions: Actions, name: str, what: str, end: str | None = None
) -> argparse.ArgumentParser:
    """`what` it does, without a capital letter and a full stop; `end`: text behind the options, as
    it is.
    """
    formatter = argparse.HelpFormatter if end is None else argparse.RawDescriptionHelpFormatter
    return actions.add_parser(
        name,
        help=what,
        description=f"{what[:1].upper()}{what[1:]}.",
        epilog=end,
        formatter_class=formatter,
        allow_abbrev=False,
    )


def add_password_file(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """For a verb that acts on the running gateway."""
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        default=default,
        help="holds the password of the status page; else that of the configuration",
    )
