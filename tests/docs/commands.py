"""Whether a command line can be right: its program is a known one, and `tidegate` and our modules
know the verbs and options.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

from gateway.cli.parsing import whole_parser
from tests.docs.blocks import REPOSITORY, Block

# What the documents may ask somebody to type, beside the stubs of a root.
_PROGRAMS = """
cat cd chgrp chmod chown cp curl echo exec exit export grep head install ip jq ln ls mkdir mount
mosquitto_passwd mosquitto_pub mosquitto_sub mpremote mv openssl rm sleep spark-submit
start-connect-server.sh systemd-sysusers tee test touch true uhubctl umask usbrelay
"""
_OURS = {"build/bench/load", ".venv/bin/pytest"}
_ENDS = {"|", "||", "&&", ";", "&", "(", ")", "<", ">", ">>", "<<", ">|", "2>"}
_PROMPT = re.compile(r"^\$ (.*(?:\\\n.*)*)$", re.MULTILINE)
_ASSIGNED = re.compile(r"[A-Z_]+=\S*")
_HEREDOC = re.compile(r"<<'?(\w+)'?.*?^\1$", re.DOTALL | re.MULTILINE)


def script_of(block: Block) -> str:
    """What is typed of it, without what is answered."""
    if any(line.startswith("$ ") for line in block.text.splitlines()):
        return "\n".join(_PROMPT.findall(block.text)) + "\n"
    return block.text


def faults_of_script(script: str) -> Iterator[str]:
    parsed = subprocess.run(
        ["bash", "-n"], input=script, text=True, capture_output=True, check=False
    )
    if parsed.returncode:
        yield parsed.stderr.strip()
        return
    for command in commands_in(script):
        yield from (f"{shlex.join(command)}: {fault}" for fault in faults_of(command))


def commands_in(script: str) -> Iterator[list[str]]:
    """Each with its arguments; without redirections and what stands in quotes or here-documents."""
    joined = _HEREDOC.sub("", script.replace("\\\n", " "))
    joined = re.sub(r"\"?\$\(command -v (\w+)\)\"?", r"\1", joined)
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.wordchars += "{}:$@%+,!^"
        command: list[str] = []
        skips = False
        for word in [*lexer, ";"]:
            if skips:
                skips = False
            elif word in _ENDS or set(word) <= set("|&;()<>"):
                if command and command[-1] in ("1", "2") and word.startswith(">"):
                    command.pop()
                if word[0] in "<>":
                    skips = not word.endswith("&")
                elif command:
                    yield command
                    command = []
            else:
                command.append(word)


def faults_of(command: list[str]) -> Iterator[str]:
    words = _without_prefixes(command)
    if not words:
        return
    program, arguments = words[0].rsplit("/", 1)[-1], words[1:]
    if words[0] in ("python", "pip"):
        yield f"Debian has no {program} outside of an environment"
    elif program == "tidegate":
        yield from _faults_of_tidegate(arguments)
    elif program.startswith("python") and arguments[:1] == ["-m"]:
        yield from _faults_of_module(arguments[1], arguments[2:])
    elif program == "make":
        yield from _faults_of_make(arguments)
    elif program not in {*_PROGRAMS.split(), *stubs()} and words[0] not in _OURS:
        yield "an unknown program: tests/docs/commands.py lists those that may be named"


def stubs() -> set[str]:
    return {path.name for path in (REPOSITORY / "tests" / "docs" / "stubs").rglob("*")}


def _without_prefixes(command: list[str]) -> list[str]:
    words = list(command)
    while words:
        if _ASSIGNED.fullmatch(words[0]) or words[0] in (
            "sudo",
            "env",
            "exec",
            "timeout",
            "linux32",
        ):
            words = words[1:]
        elif words[0] == "-u":
            words = words[2:]
        else:
            break
    return words


def _faults_of_tidegate(arguments: list[str]) -> Iterator[str]:
    typed = ["/dev/ttyUSB0" if word == "PORT" else word for word in arguments if word != "..."]
    parser = whole_parser()
    try:
        parser.parse_args(typed)
    except SystemExit as end:
        if end.code:
            yield "tidegate does not know this"


def _faults_of_module(module: str, arguments: list[str]) -> Iterator[str]:
    base = REPOSITORY / module.replace(".", "/")
    files = (
        [base.with_suffix(".py")] if base.with_suffix(".py").is_file() else [*base.rglob("*.py")]
    )
    if not files:
        if module.split(".")[0] in ("tests", "gateway", "firmware", "hil", "spark_ingest"):
            yield f"there is no module {module}"
        return
    files += (
        (REPOSITORY / "tests" / "bench" / "part.py",) if module.startswith("tests.bench.") else ()
    )
    text = "".join(path.read_text() for path in files)
    for word in arguments:
        option = word.split("=")[0]
        if option.startswith("--") and option != "--help" and f'"{option}"' not in text:
            yield f"{module} has no {option}"


def _faults_of_make(arguments: list[str]) -> Iterator[str]:
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in (word for word in arguments if "=" not in word and not word.startswith("-")):
        if not re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE):
            yield f"the Makefile has no {target}"
