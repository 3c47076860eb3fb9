"""Parts of a command line with commands in groups: help for a group alone, and completion in the shell."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence

SHELLS = ("bash", "zsh", "fish")


def print_group_help(parser: argparse.ArgumentParser, words: Sequence[str]) -> bool:
    """Print the help of a group of commands if `words` name that and nothing else, as OpenShift's programs do.

    Returns whether they do.
    """
    for word in words:
        if (below := _commands(parser).get(word)) is None:
            return False
        parser = below
    if not _commands(parser):
        return False
    parser.print_help()
    return True


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((dict(action.choices) for action in groups), {})


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser and of all its commands."""
    yield from parser._actions
    for below in _commands(parser).values():
        yield from actions(below)


def add_completion(parser: argparse.ArgumentParser, program: str) -> None:
    """Make `parser` the command `completion` of a program."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f'in ~/.bashrc: eval "$({program} completion bash)"'
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def print_completion(program: str, shell: str) -> int:
    """Print the script by which a shell completes a program's command lines; the exit code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode([program], shell=shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions and end the process if the shell asks for them; else do nothing."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options="long")
