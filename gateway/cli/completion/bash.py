"""For bash 4 and newer, with or without the package bash-completion."""

from collections.abc import Iterator

from gateway.cli.outline import Argument, Command

_HEAD = """\
# bash completion for tidegate, written by: tidegate completion bash
_tidegate() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local path=tidegate words="" at
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "$path ${COMP_WORDS[at]}" in
"""
_MIDDLE = """\
        esac
    done
    COMPREPLY=()
    case "$path $before" in
"""
_TAIL = """\
    esac
    if [[ $words == @file ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif [[ $words != @none ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        if [[ $is_file_too && $word != -* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
        fi
    fi
}
complete -F _tidegate tidegate
"""


def script(program: Command) -> str:
    commands = list(program.walk())
    lines = [_HEAD]
    lines += _steps(commands)
    lines.append(_MIDDLE)
    for command in commands:
        lines += _values(command)
    lines.append("    *)\n        local is_file_too=\n        case $path in\n")
    lines += [_words(command) for command in commands]
    lines.append("        esac\n        ;;\n")
    return "".join(lines) + _TAIL


def _steps(commands: list[Command]) -> Iterator[str]:
    """Which command the words so far have led to; the value of an option is none."""
    for command in commands:
        path = " ".join(command.path)
        for option in command.options:
            if option.value is not None:
                names = "|".join(f'"{path} {name}"' for name in option.names)
                yield f"        {names}) ((at++)) ;;\n"
        for below in command.commands:
            yield f'        "{" ".join(below.path)}") path="{" ".join(below.path)}" ;;\n'


def _values(command: Command) -> Iterator[str]:
    path = " ".join(command.path)
    for option in command.options:
        if option.value is not None:
            names = "|".join(f'"{path} {name}"' for name in option.names)
            yield f"    {names}) words={_value_words(option)} ;;\n"


def _value_words(argument: Argument) -> str:
    if argument.choices:
        return f'"{" ".join(argument.choices)}"'
    return "@file" if argument.is_path else "@none"


def _words(command: Command) -> str:
    words = [below.name for below in command.commands]
    words += [choice for operand in command.operands for choice in operand.choices]
    words += [name for option in command.options for name in option.names]
    is_file = "1" if any(operand.is_path for operand in command.operands) else ""
    path = " ".join(command.path)
    return f'        "{path}") words="{" ".join(words)}" is_file_too={is_file} ;;\n'
