"""`tidegate password`: makes what the configuration has of a password, or a token for a program.

What is printed is an entry for the end of the configuration file, so that
`tidegate password --user anna >>FILE` is all. The password is asked for without echo, or is the
first line of standard input. A token is shown once, on standard error.
"""

import argparse
import getpass
import sys

from gateway.app.exit_codes import ExitCode
from gateway.cli.output import print_error, put
from gateway.config.spelling import quoted

LENGTH_MIN = 8  # NIST SP 800-63B, 5.1.1.2, which sets no other rule
LENGTH_MAX = 1024
EPILOG = """
Without --user and --token only the hash is printed: for admin.password_file,
or in place of the password of an entry that is there already. A reload (SIGHUP)
takes it at once, and ends the sessions of that user.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--user", metavar="NAME", help="an entry [[admin_user]] of this name")
    which.add_argument(
        "--token", metavar="NAME", help="a new token, and an entry [[admin_token]] of this name"
    )
    parser.add_argument(
        "--role", choices=("viewer", "operator"), default="viewer", help="without it viewer"
    )


def run(arguments: argparse.Namespace) -> int:
    from gateway.admin.http.passwords import hash_password, hash_token, new_token

    if arguments.token is not None:
        token = new_token()
        put(_entry("admin_token", arguments.token, "token", hash_token(token), arguments.role))
        print_error(f"the token, which is shown this once: {token}")
        return ExitCode.OK
    try:
        password = _asked()
    except ValueError as error:
        print_error(f"tidegate {arguments.verb}: {error}")
        return ExitCode.USAGE
    stored = hash_password(password)
    if arguments.user is None:
        put(f"{stored}\n")
    else:
        put(_entry("admin_user", arguments.user, "password", stored, arguments.role))
    return ExitCode.OK


def _entry(table: str, name: str, key: str, stored: str, role: str) -> str:
    return (
        f"\n[[{table}]]\nname = {quoted(name)}\n{key} = {quoted(stored)}\nrole = {quoted(role)}\n"
    )


def _asked() -> str:
    """Raises ValueError with a sentence."""
    if sys.stdin.isatty():
        password = getpass.getpass("new password: ")
        if getpass.getpass("once more: ") != password:
            raise ValueError("the two are not the same")
    else:
        password = sys.stdin.readline(LENGTH_MAX + 2).rstrip("\r\n")
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise ValueError(f"a password has {LENGTH_MIN} to {LENGTH_MAX} characters")
    return password
