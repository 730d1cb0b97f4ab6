"""This command as it can be typed here: what is printed as something to type must run as it stands.

`tidegate` where a shell finds this very program by that name; else the way it was called, such as
`.venv/bin/tidegate` in a clone.
"""

import re
import sys
from pathlib import Path

from gateway.cli.verbs import VERBS

NAME = "tidegate"
# `tidegate VERB`, but not at the beginning of an error, `tidegate VERB: `.
_COMMAND_IN_TEXT = re.compile(
    rf"(?<![\w/.-]){NAME} (?=(?:{'|'.join(verb.name for verb in VERBS)})\b(?!:))"
)


def runnable(text: str) -> str:
    """The same with every command in it as it can be typed."""
    command = this_command()
    return text if command == NAME else _COMMAND_IN_TEXT.sub(lambda _: f"{command} ", text)


def this_command() -> str:
    called = sys.argv[0]
    if Path(called).name != NAME or _is_found(called):
        return NAME
    import shlex

    return shlex.quote(called)


def _is_found(called: str) -> bool:
    import shutil  # and compression with it, which nothing else needs at a start

    found = shutil.which(NAME)
    try:
        return found is not None and Path(found).samefile(called)
    except OSError:
        return False
