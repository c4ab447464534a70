"""The list of the commands, which imports none of them."""

from __future__ import annotations

import inspect

import pytest

from nnhal_tools.cli.app import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_itself_says(name: str) -> None:
    command = COMMANDS[name].load(name)
    (first, *_) = inspect.cleandoc(command.help).split("\n\n")
    assert (command.name, " ".join(first.split())) == (name, COMMANDS[name].help)
