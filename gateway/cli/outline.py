"""The command line as a value: verbs, actions and options with their words, as --help has them.

The manual is written from it, so that it cannot say what the parser does not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PATHS = frozenset({"FILE", "FOLDER", "DIR"})


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, or without names what stands by itself. `value` is None for one that has none."""

    names: tuple[str, ...]
    value: str | None
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """`path` begins with the program; `groups` are its arguments under their titles."""

    path: tuple[str, ...]
    help: str
    description: str
    epilog: str
    usage: str
    groups: tuple[tuple[str, tuple[Argument, ...]], ...]
    commands: tuple[Command, ...]

    @property
    def arguments(self) -> Iterator[Argument]:
        for _, arguments in self.groups:
            yield from arguments

    @property
    def options(self) -> list[Argument]:
        return [argument for argument in self.arguments if argument.names]

    def walk(self) -> Iterator[Command]:
        yield self
        for command in self.commands:
            yield from command.walk()


def outline(parser: argparse.ArgumentParser, help_: str = "") -> Command:
    path = tuple(parser.prog.split())
    return Command(
        path=path,
        help=help_,
        description=parser.description or "",
        epilog=parser.epilog or "",
        usage=" ".join(parser.format_usage().removeprefix("usage: ").split()),
        groups=tuple(_groups(parser)),
        commands=tuple(_commands(parser, path)),
    )


def _groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, tuple[Argument, ...]]]:
    for group in parser._action_groups:
        arguments = tuple(
            _argument(parser, action)
            for action in group._group_actions
            if not isinstance(action, argparse._SubParsersAction)
        )
        if arguments:
            yield group.title or "options", arguments


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    takes = action.nargs != 0
    value = ("{" + ",".join(choices) + "}" if choices else _metavar(action)) if takes else None
    return Argument(
        names=tuple(action.option_strings),
        value="FILE" if is_path(action) and value not in _PATHS else value,
        help=" ".join(parser._get_formatter()._expand_help(action).split()),
    )


def _metavar(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def is_path(action: argparse.Action) -> bool:
    """Whether its value is the name of a file or folder."""
    return action.nargs != 0 and (action.type is Path or _metavar(action) in _PATHS)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """This one and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def _commands(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[Command]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                below.prog = " ".join((*path, name))  # without the operands before it
                yield outline(below, helps.get(name, ""))
