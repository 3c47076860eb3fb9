"""The operator's process: its own service, its name, and command lines that are refused."""

import os
import signal
import ssl
import urllib.request

import pytest

from installer.cli import parser
from installer.common.ports import free_port
from installer.errors import ConfigError
from installer.hub import command
from installer.hub.operator import OwnService, identity
from installer.testing.hub.apiserver import until


def answers(access):
    try:
        context = ssl.create_default_context(cafile=str(access.ca_file))
        with urllib.request.urlopen(f"{access.url}ready", context=context, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_its_service_is_started_again_and_ends_with_it(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("installer.hub.operator._FIRST_WAIT", 0.01)
    monkeypatch.setattr("installer.hub.operator._LAST_WAIT", 0.01)
    own = OwnService(tmp_path / "service", f"127.0.0.1:{free_port()}")
    with own as access:
        until(lambda: answers(access), 60)
        first = own._process.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: own._process.pid != first and answers(access), 60)
        second = own._process
    assert second.poll() == 0
    assert not answers(access)
    assert "the service has ended with -9; it is started again" in caplog.text


def test_a_service_that_cannot_start_is_an_error_at_once(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "of-somebody").touch()
    with pytest.raises(ConfigError, match="the service did not start"), OwnService(tmp_path, "127.0.0.1:8090"):
        pass


def test_an_operator_has_the_same_name_at_each_start(tmp_path):
    assert identity(tmp_path) == identity(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert identity(other) != identity(tmp_path)


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        ([], ["--listen for a service of its own, or --service"]),
        (
            ["--service", "https://s", "--listen", "192.0.2.1:1"],
            ["--listen: not with --service", "--service: needs --t"],
        ),
        (["--token", "a", "--ca", "b", "--listen", "192.0.2.1:1"], ["--token: only with", "--ca: only with"]),
        (["--listen", "0.0.0.0:1", "--metrics", "x"], ["--listen 0.0.0.0:1: ", "--metrics x: must be ADDRESS:PORT"]),
        (["--listen", "192.0.2.1:1", "--webhook", "192.0.2.1:1"], ["--webhook 192.0.2.1:1: is that of --listen"]),
    ],
)
def test_a_command_line_s_mistakes_are_all_told_before_anything_is_made(words, problems, tmp_path):
    args = parser().parse_args(["hub", "run", "--dir", str(tmp_path / "new"), *words])
    with pytest.raises(ConfigError) as raised:
        command.run(args)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(problems)
    assert all(problem in line for problem, line in zip(problems, lines, strict=True))
    assert not (tmp_path / "new").exists()


def test_an_operator_in_the_cluster_leaves_the_webhooks_their_port():
    args = parser().parse_args(["hub", "install", "--image", "x", "--listen", "192.0.2.1:9443"])
    with pytest.raises(ConfigError, match=r"--listen 192.0.2.1:9443: port 9443 is that of the operator's webhooks"):
        command.run(args)


def test_a_kubeconfig_that_is_none_is_one_line(tmp_path):
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\n")
    for words in (["install"], ["wait-for", "infraenv/x"]):
        args = parser().parse_args(["hub", *words, "--kubeconfig", str(tmp_path / "kubeconfig")])
        with pytest.raises(ConfigError, match="cannot use kubeconfig") as raised:
            command.run(args)
        assert "\n" not in str(raised.value)
