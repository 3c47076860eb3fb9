"""Completions that the shell is offered when somebody presses Tab."""

import argparse
import os
import sys
from types import SimpleNamespace

import pytest

from lab import topology
from lab.commands import cli, completion
from lab.errors import UnknownLabError
from lab.faults import Outage, active


def offered(tmp_path, line, complete=cli.main):
    """Return the words that node0-lab offers at the end of a line, on a machine where no lab runs."""
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    point = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    child = os.fork()
    if not child:
        # argcomplete ends the process.
        try:
            os.environ |= asked | point | {"NODE0_STATE": str(tmp_path)}
            complete()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    return [word.strip() for word in answer.read_text().split("\n")]


def test_commands_faults_and_options_are_offered(tmp_path):
    command = [sys.executable, "-m", "lab.commands.cli"]
    assert {"begin", "end", "ls"} <= set(offered(tmp_path, "node0-lab fault ", lambda: os.execv(command[0], command)))
    assert offered(tmp_path, "node0-lab fault begin link-") == ["link-down"]
    assert {"--node", "--lab"} <= set(offered(tmp_path, "node0-lab fault begin link-down --"))
    assert offered(tmp_path, "node0-lab fault begin kill --process kube") == [
        "kubelet",
        "kube-apiserver",
        "kube-controller-manager",
    ]
    assert offered(tmp_path, "node0-lab fault begin outage --service re") == ["registry"]


def completers(command_line, chosen):
    """Return the completer of each argument that has one, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_ARGCOMPLETE", "1")
        patch.setattr("argcomplete.autocomplete", lambda *_, **__: None)
        completion.offer(command_line.parser, chosen)
    return {action.dest: action.completer for action in command_line.actions if hasattr(action, "completer")}


@pytest.fixture
def command_line():
    parser = argparse.ArgumentParser()
    names = ("--lab", "--node", "--nodes", "--nic", "--image", "number", "--service", "--name", "--how")
    return SimpleNamespace(parser=parser, actions=[parser.add_argument(name, help="x") for name in names])


def test_names_are_those_of_the_lab_that_is_meant(tmp_path, command_line):
    lab = SimpleNamespace(layout=SimpleNamespace(root=tmp_path), services=SimpleNamespace(stop=str))
    active.begin(lab, Outage("bmc"))
    record = SimpleNamespace(topology=topology.compact(), components={"b": "", "a": ""}, root=tmp_path)
    asked = []
    by_option = completers(command_line, lambda lab: asked.append(lab) or record)
    names = {
        name: list(find(parsed_args=argparse.Namespace(lab="x"))) for name, find in by_option.items() if name != "lab"
    }
    assert names == {
        "node": ["master-0", "master-1", "master-2"],
        "nodes": ["master-0", "master-1", "master-2"],
        "nic": ["enp1s0"],
        "image": ["a", "b"],
        "number": ["1"],
        "service": ["dnsmasq", "registry", "chronyd", "bmc", "http"],
        "name": ["api", "api-int", "registry"],
    }
    assert set(asked) == {"x"}


def test_without_a_lab_nothing_of_one_is_offered(command_line):
    def chosen(_lab):
        raise UnknownLabError("no lab runs")

    by_option = completers(command_line, chosen)
    assert [list(by_option[name](parsed_args=argparse.Namespace())) for name in ("node", "image", "number")] == [[]] * 3


def test_who_is_not_a_shell_is_offered_nothing(command_line, monkeypatch):
    monkeypatch.delenv("_ARGCOMPLETE", raising=False)
    completion.offer(command_line.parser, lambda _lab: pytest.fail("nobody asked"))
    assert not any(hasattr(action, "completer") for action in command_line.actions)
