"""For zsh, by its own _arguments."""

from collections.abc import Iterator

from gateway.cli.outline import Argument, Command


def script(program: Command) -> str:
    lines = ["#compdef tidegate", "# zsh completion, written by: tidegate completion zsh", ""]
    for command in program.walk():
        lines += _function(command)
    lines += ['if [[ $funcstack[1] == _tidegate ]]; then _tidegate "$@"; else', ""]
    lines[-1] = "    compdef _tidegate tidegate"
    return "\n".join([*lines, "fi", ""])


def _name(command: Command) -> str:
    return "_" + "_".join(command.path)


def _function(command: Command) -> Iterator[str]:
    yield f"{_name(command)}() {{"
    if command.commands:
        yield "    local state line"
        yield "    local -a below"
    yield "    _arguments -C \\" if command.commands else "    _arguments \\"
    specs = [*_options(command), *_operands(command)]
    if command.commands:
        specs += ["'1: :->below'", "'*:: :->rest'"]
    yield from (f"        {spec} \\" for spec in specs[:-1])
    yield f"        {specs[-1]}"
    if command.commands:
        yield from _dispatch(command)
    yield "}"
    yield ""


def _options(command: Command) -> Iterator[str]:
    for option in command.options:
        value = "" if option.value is None else f":{_plain(option.value)}:{_action(option)}"
        for name in option.names:
            yield f"'*{name}[{_plain(option.help)}]{value}'"


def _operands(command: Command) -> Iterator[str]:
    for number, operand in enumerate(command.operands, 1):
        colon = "::" if operand.is_optional else ":"
        yield f"'{number}{colon}{_plain(operand.value or '')}:{_action(operand)}'"


def _dispatch(command: Command) -> Iterator[str]:
    yield "    case $state in"
    yield "    below)"
    yield "        below=("
    for below in command.commands:
        yield f"            '{below.name}:{_plain(below.help)}'"
    yield "        )"
    yield "        _describe -t commands command below"
    yield "        ;;"
    yield "    rest)"
    yield "        case $words[1] in"
    for below in command.commands:
        yield f"        {below.name}) {_name(below)} ;;"
    yield "        esac"
    yield "        ;;"
    yield "    esac"


def _action(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return "_files" if argument.is_path else " "


def _plain(text: str) -> str:
    """Without what _arguments and the quotes around it take for something else."""
    return text.replace("'", "").translate(str.maketrans("[]:{}", "();()", "`\\"))
