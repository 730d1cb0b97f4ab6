"""`tidegate completion SHELL`: the script with which a shell completes this command.

Written from the parser once, not asked of it at each TAB: on a small board an answer would take
half a second.
"""

import argparse

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import put

SHELLS = ("bash", "zsh", "fish")
EPILOG = """
where it goes:
  bash  ~/.local/share/bash-completion/completions/tidegate
  zsh   a folder of $fpath, as _tidegate
  fish  ~/.config/fish/completions/tidegate.fish

The Debian package brings all three.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from gateway.cli.outline import is_path, parsers
    from gateway.cli.parsing import whole_parser

    whole = whole_parser()
    for parser in parsers(whole):
        for action in parser._actions:
            if is_path(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    put(shtab.complete(whole, shell=arguments.shell))
    return ExitCode.OK
