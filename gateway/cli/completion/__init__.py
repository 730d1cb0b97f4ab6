"""`tidegate completion SHELL`: the script with which a shell completes this command.

Written from the parser once, not asked of it at each TAB: on a small board an answer would take
half a second.
"""

import argparse

from gateway.app.exit_codes import ExitCode
from gateway.cli.completion import bash, fish, zsh
from gateway.cli.output import put

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
EPILOG = """
where it goes:
  bash  ~/.local/share/bash-completion/completions/tidegate
  zsh   a folder of $fpath, as _tidegate
  fish  ~/.config/fish/completions/tidegate.fish

The Debian package brings all three.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    parser.add_argument("shell", choices=list(SHELLS), help="which shell")


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.outline import outline
    from gateway.cli.parsing import whole_parser

    put(SHELLS[arguments.shell](outline(whole_parser())))
    return ExitCode.OK
