"""For fish 3 and newer."""

from collections.abc import Iterator

from gateway.cli.outline import Argument, Command


def script(program: Command) -> str:
    lines = ["# fish completion for tidegate, written by: tidegate completion fish"]
    lines.append("complete -c tidegate -f")
    for command in program.walk():
        lines += _command(command)
    return "\n".join(lines) + "\n"


def _command(command: Command) -> Iterator[str]:
    condition = _condition(command)
    for below in command.commands:
        yield _line(condition, f"-a {below.name}", below.help)
    for operand in command.operands:
        if operand.choices:
            yield _line(condition, f"-a '{' '.join(operand.choices)}'", operand.help)
        elif operand.is_path:
            yield _line(condition, "-F", operand.help)
    for option in command.options:
        yield _line(condition, _option(option), option.help)


def _condition(command: Command) -> str:
    """That the words so far have led to this command, and not further."""
    *seen, last = command.path
    parts = [f"__fish_seen_subcommand_from {name}" for name in seen[1:]]
    if seen:
        parts.append(f"__fish_seen_subcommand_from {last}")
    if command.commands:
        names = " ".join(below.name for below in command.commands)
        parts.append(f"not __fish_seen_subcommand_from {names}")
    return "; and ".join(parts)


def _line(condition: str, what: str, help_: str) -> str:
    description = help_.replace("\\", "\\\\").replace("'", "\\'")
    return f"complete -c tidegate -n '{condition}' {what} -d '{description}'"


def _option(option: Argument) -> str:
    names = " ".join(
        f"-l {name.removeprefix('--')}" if name.startswith("--") else f"-s {name[1:]}"
        for name in option.names
    )
    if option.value is None:
        return names
    if option.choices:
        return f"{names} -x -a '{' '.join(option.choices)}'"
    return f"{names} -r -F" if option.is_path else f"{names} -x"
