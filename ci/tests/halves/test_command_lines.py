"""The three programs' command lines: a group of commands alone prints its help, and each shell gets its script."""

import pytest

import ci.informer.cli
import installer.cli
import lab.commands.cli
from installer.common.commandline import SHELLS

PROGRAMS = {"node0": installer.cli.main, "node0-lab": lab.commands.cli.main, "node0-ci": ci.informer.cli.main}


@pytest.mark.parametrize(
    "words",
    ["node0", "node0 agent", "node0 agent create", "node0 iso", "node0-lab", "node0-lab fault begin", "node0-ci"],
)
def test_a_group_of_commands_alone_prints_its_help(words, capsys):
    program, *rest = words.split()
    assert PROGRAMS[program](rest) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: {words} [")
    assert not err


@pytest.mark.parametrize("words", ["node0 agent create image more", "node0 --dir . agent nope", "node0-lab fault nope"])
def test_no_help_hides_a_mistake(words, capsys):
    program, *rest = words.split()
    with pytest.raises(SystemExit) as ended:
        PROGRAMS[program](rest)
    assert ended.value.code == 2
    assert not capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_shell_gets_a_script(program, shell, capsys):
    assert PROGRAMS[program](["completion", shell]) == 0
    assert program in capsys.readouterr().out
