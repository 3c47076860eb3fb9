"""Machines of a cluster, as their BMCs show them and as the books tell of earlier runs."""

import signal
import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import yaml

from installer.common.ports import free_port
from installer.errors import InstallerError
from installer.hub.baremetal.provisioner import Done
from installer.ipi import cluster
from installer.ipi.plan import Action, Step, decide
from installer.ipi.record import Books, Record
from installer.ipi.targets import Seen, finished, look, refusals, shown, targets_of
from installer.testing.hub.bmc_kit import MAC, PASSWORD, USER, emulated_bmc, served_iso
from installer.tests.ipi.test_inputs import config, document

BMC = {"username": USER, "password": PASSWORD, "disableCertificateVerification": True}


@pytest.fixture(scope="module")
def bmc(tmp_path_factory):
    with emulated_bmc(tmp_path_factory.mktemp("bmc"), is_quick=True) as running:
        yield running


@pytest.fixture
def iso(bmc, tmp_path):
    """Yield the URL of an image that a machine runs from, and end that."""
    with served_iso(tmp_path) as url:
        machine = bmc.machine()
        assert isinstance(finished(lambda: machine.provision(url), 20, threading.Event()), Done)
        yield url
        finished(machine.deprovision, 20, threading.Event())


@pytest.fixture
def directory(bmc, iso, tmp_path):
    """Return a directory of a cluster whose first master is there; nobody listens at the addresses of the others."""
    written = document()
    for n, host in enumerate(written["platform"]["baremetal"]["hosts"]):
        address = f"redfish-virtualmedia+http://127.0.0.1:{free_port()}/redfish/v1/Systems/{n}"
        host["bmc"] = BMC | {"address": address if n else bmc.address}
    (tmp_path / "install-config.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / cluster.FOLDER).mkdir()
    note(tmp_path, {"master-0": "started", "bootstrap": "removed"}, iso)
    return tmp_path


def note(directory, hosts, url):
    books = Books("t0ken", "an earlier stamp", hosts, [url])
    (directory / cluster.BOOKS).write_bytes(msgspec.json.encode(books))


def targets(**changes):
    return targets_of(config(**changes))


def test_a_look_shows_power_drive_and_nics(bmc, iso):
    [target, *_] = targets_of(config(bmc=BMC | {"address": bmc.address}, name="a"))[1:2]
    assert look([target]) == {"a": Seen(True, iso, frozenset({MAC}))}


def test_a_bmc_that_is_another_machines_is_refused(caplog):
    macs = [target.mac for target in targets()]
    seen = {
        "master-0": Seen(False, macs=frozenset({macs[1]})),
        "master-1": Seen(False, macs=frozenset({macs[1], macs[2]})),
        "master-2": Seen(False, macs=frozenset({"00:00:5e:00:53:ff"})),
    }
    [(name, problem)] = refusals(targets(), seen).items()
    assert (name, "bootMACAddress of master-1, and none" in problem) == ("master-0", True)
    assert "master-2: its BMC shows no NIC with bootMACAddress 00:00:5e:00:53:02" in caplog.text
    assert refusals(targets(), dict.fromkeys(seen, Seen(False))) == {}


@pytest.mark.parametrize("image", ["http://[", "//[::1", "http://a/\x1b[2J", f"http://a/{'b' * 10_000}"])
def test_what_a_drive_holds_is_shown_safely(tmp_path, image):
    record = Record(tmp_path / "books", Books("t0ken"))
    step = decide(targets()[0], Seen(False, image), record, "/x", force=False)
    assert step.action is Action.REFUSE
    assert step.text.isprintable()
    assert len(step.text) < 300
    assert len(shown(image)) <= 120


def test_a_bootstrap_that_is_complete_is_not_started_again(tmp_path):
    host = config(role="bootstrap").platform.baremetal.hosts
    machines = cluster.Machines(
        [target for target in targets(role="bootstrap", name="bootstrap") if target.role == "bootstrap"],
        {entry.name: entry for entry in host},
    )
    record = Record(tmp_path / "books", Books("t0ken", "", {"bootstrap": "complete"}))
    steps = cluster.decided(machines, record, {"bootstrap": "/x"}, cluster.Options(bootstrap=None, ports=(1, 2)))
    assert steps["bootstrap"].action is Action.DONE


def test_ignition_configs_that_have_expired_begin_nothing(tmp_path, monkeypatch):
    ignition = tmp_path / "bootstrap.ign"
    ignition.write_bytes(b"{}")
    cluster.refuse_expired(ignition, "")
    past = cluster.certificates.Expiry(datetime.now(UTC) - timedelta(hours=2), "/opt/tls.crt")
    monkeypatch.setattr(cluster.certificates, "expiries", lambda _: [past])
    cluster.refuse_expired(ignition, "started")
    with pytest.raises(InstallerError, match="1 certificates of bootstrap"):
        cluster.refuse_expired(ignition, "")


def test_a_cluster_is_destroyed_as_far_as_its_bmcs_answer(bmc, directory, caplog, iso):
    options = cluster.Options(bootstrap=None, ports=(1, 2))
    note(directory, {"master-0": "started", "master-1": "started", "bootstrap": "removed"}, iso)
    with pytest.raises(InstallerError, match="run this again"):
        cluster.destroy(directory, options)
    assert "master-1: BMC http://127.0.0.1" in caplog.text
    assert PASSWORD not in caplog.text
    seen = bmc.machine().look()
    assert (seen.powered, seen.image) == (False, "")
    assert (directory / cluster.BOOKS).exists()


@pytest.mark.slow
def test_an_interrupt_leaves_machines_that_run_from_our_images(bmc, directory, caplog, iso):
    install = cluster.install_config(directory)
    cluster_targets = targets_of(install)[:1]
    (directory / "auth").mkdir()
    (directory / "auth/kubeconfig").write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a", "users": [{"name": "a", "user": {}}],
            }
        )
    )  # fmt: skip
    note(directory, {"master-0": "started"}, iso)
    record = Record.load(directory / cluster.BOOKS, None, [])
    machines = cluster.Machines(cluster_targets, {})
    run = cluster.Run(directory, install, machines, record, paths={"master-0": "/x"}, ports=(1, 2))
    interrupt = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        run.carry_out({"master-0": Step(Action.FOLLOW, "")})
    assert bmc.machine().look().image == iso
    assert "Left running from our images: master-0; run create cluster again" in caplog.text
