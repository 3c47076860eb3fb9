"""Each argument of a command says in its --help what it is for."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ci.bench import __main__ as bench
from ci.informer import cli as informer
from installer import cli
from installer.agent.swarm import command as swarm
from lab.commands import cli as lab
from lab.release import __main__ as release

COMMANDS: dict[str, Callable[[Sequence[str]], object]] = {
    "ci/bench/run": bench.main,
    "node0": cli.main,
    "node0-ci": informer.main,
    "node0-lab": lab.main,
    "node0 swarm": swarm.checked_arguments,
    "python -m lab.release": release.main,
}
#: Where parsers and groups have `add_argument` from.
CONTAINER = next(kind for kind in argparse.ArgumentParser.__mro__ if "add_argument" in vars(kind))


@pytest.fixture
def silent(monkeypatch) -> list[str]:
    """Provide the arguments that are added without a text, while the test runs."""
    names: list[str] = []
    add = vars(CONTAINER)["add_argument"]

    def noting(self: Any, *flags: str, **settings: Any) -> Any:
        if not settings.get("help"):
            names.append(" ".join(flags))
        return add(self, *flags, **settings)

    monkeypatch.setattr(CONTAINER, "add_argument", noting)
    return names


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_says_what_it_is_for(silent, capsys, name):
    with pytest.raises(SystemExit) as ended:
        COMMANDS[name](["--help"])
    assert ended.value.code == 0
    assert silent == []
    assert name in capsys.readouterr().out


def test_one_that_says_nothing_is_seen(silent):
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--loud", help="says so")
    parser.add_argument_group("more").add_argument("-q", "--quiet")
    assert silent == ["-q --quiet"]
