"""Labs as `ls` shows them: their machines, and where their clusters are found."""

import json
import os
import signal
import time
from argparse import Namespace
from types import SimpleNamespace

import msgspec
import pytest

from lab import topology
from lab.cleanup import afterwards
from lab.commands import cli, deploy, interrupts
from lab.host import records
from lab.host.identity import this_process


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Provide a lab that runs, in the order of whose files b is before a."""
    monkeypatch.setenv("NODE0_STATE", str(tmp_path))
    monkeypatch.setenv("NODE0_BUDGET", str(tmp_path / "budget"))
    shape = topology.compact()
    nodes = tuple(
        msgspec.structs.replace(node, name=name) for node, name in zip(shape.nodes, ("b", "a", "c"), strict=True)
    )
    made = records.Record(
        id="compact-1a2b",
        topology=msgspec.structs.replace(shape, nodes=nodes),
        owner=this_process(),
        created=time.time(),
        artifacts="/evidence",
    )
    lock = records.create(made)
    yield made
    os.close(lock)


def lead(record):
    """Have a host lead the installation, as after `agent create image`."""
    (record.root / "cluster").mkdir()
    (record.root / "cluster/rendezvousIP").touch()


def listed(capsys, *words):
    assert cli.main(["ls", *words]) == 0
    return capsys.readouterr().out


def test_a_lab_tells_its_machines_in_their_order_and_what_exists_of_its_cluster(record, capsys):
    bare = json.loads(listed(capsys, "-o", "json"))["labs"][0]
    assert [machine["name"] for machine in bare["machines"]] == ["b", "a", "c"]
    assert bare["cluster"] == {"state": "none"}
    assert "node0-lab" not in listed(capsys)
    msgspec.structs.replace(record, cluster="installing").save()
    assert "page" not in listed(capsys), "no host leads where users boot the machines"
    lead(record)
    assert (
        "  page       node0-lab open --lab compact-1a2b page    (https://192.168.111.80:8090/, while the hosts install)"
        in listed(capsys)
    )
    (record.root / "cluster/auth").mkdir()
    (record.root / "cluster/auth/kubeconfig").touch()
    msgspec.structs.replace(record, cluster="installed").save()
    text = listed(capsys)
    assert "page" not in text, "its host has rebooted"
    assert "  console    node0-lab open --lab compact-1a2b console    (https://console-openshift-console.apps." in text
    assert "  kubectl    node0-lab kubectl --lab compact-1a2b get nodes" in text
    cluster = json.loads(listed(capsys, "-o", "json"))["labs"][0]["cluster"]
    assert cluster["kubeconfig"]["file"] == str(record.root / "cluster/auth/kubeconfig")
    assert cluster["console"]["user"] == "kubeadmin"


def test_who_asks_too_early_or_too_late_hears_it(record, monkeypatch, capsys):
    monkeypatch.setattr(cli.watch, "running", records.read)
    monkeypatch.setattr(os, "execvp", lambda *_: 0)
    (record.root / "cluster/auth").mkdir(parents=True)
    (record.root / "cluster/auth/kubeconfig").touch()
    err = {}
    for state in ("installing", "installed"):
        msgspec.structs.replace(record, cluster=state).save()
        cli.main(["kubectl", "get", "nodes"])
        err[state] = capsys.readouterr().err
    assert err == {
        "installing": "node0-lab: the cluster is not installed yet: its API may not answer\n",
        "installed": "",
    }
    assert cli.main(["open", "page"]) == 1
    assert "`node0-lab open console` is the cluster's" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["exec", "true"], ["kubectl", "get", "nodes"], ["ssh", "b"], ["fault", "ls"]])
def test_a_lab_that_comes_up_has_not_ended(record, words, monkeypatch, capsys):
    monkeypatch.setattr(os, "execvp", lambda *argv: pytest.fail(f"run: {argv}"))
    assert cli.main(words) == 1
    assert capsys.readouterr().err == (
        "node0-lab: lab compact-1a2b is still coming up; `node0-lab ls` lists its machines once it is there\n"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_says_what_it_takes_down_and_ends_with_its_own_code(number, code, monkeypatch, caplog, capsys):
    def run(_arguments):
        with interrupts.announced(lambda: "lab x is taken down"):
            os.kill(os.getpid(), number)
            time.sleep(20)

    before = signal.getsignal(number)
    monkeypatch.setattr(cli, "_gc", run)
    cli.parser.cache_clear()
    try:
        assert cli.main(["gc"]) == code
    finally:
        cli.parser.cache_clear()
    assert caplog.messages == ["interrupted: lab x is taken down"]
    assert capsys.readouterr().err == f"node0-lab: ended by {number.name}\n"
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_so():
    """As a background job's Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.announced(lambda: "lab x is taken down"):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("collecting", [False, True])
def test_an_interrupt_before_or_in_the_evidences_collection_leaves_it_out(collecting, tmp_path):
    """The second of two that came while the installer ended said so, and it was collected all the same."""
    collected = []
    lab = SimpleNamespace(id="x", artifacts=tmp_path, collect=lambda: collected.append("all"))
    work = deploy._Installation(Namespace(output="text", lab_keep="never"), lab, None, [])
    work.up = True
    if collecting:
        work._collect()
    else:
        assert "evidence is collected (a second interrupt leaves it out), then the lab" in work._consequence()
    assert work._consequence() == "evidence is left out, the lab is taken down"
    if not collecting:
        work._collect()
    assert collected == ["all"] * collecting


@pytest.mark.parametrize("keep", ["never", "always"])
def test_a_failed_deployment_s_document_has_its_error_and_no_places_of_a_lab_that_is_gone(keep, record, capsys):
    lead(record)
    msgspec.structs.replace(record, cluster="installing").save()
    lab = SimpleNamespace(id=record.id, artifacts="/evidence")
    work = deploy._Installation(Namespace(output="json", lab_keep=keep), lab, None, [])
    with pytest.raises(OSError, match="no room"), afterwards(("say how to go on", work._tell)):
        raise OSError("no room")
    found = json.loads(capsys.readouterr().out)
    assert (found["installed"], found["error"], found["kept"]) == (False, "no room", keep == "always")
    assert (found["cluster"]["state"], "page" in found["cluster"]) == ("installing", keep == "always")
    assert ("directory" in found) == (keep == "always")
