"""Whole installations of a host: programs that run, a service and an API on HTTP, and the order of all that happens."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer.assisted import stages
from installer.assisted.enums import Stage
from installer.orchestrator import flow
from installer.orchestrator.controller import Controller
from installer.orchestrator.errors import StageError
from installer.testing.machine_kit import BOOTSTRAP, DONE, EMPTY, OWN, written
from installer.testing.orchestrator_kit import Cluster, Site, api_server, data

CONTROLLER = Controller(
    url="https://192.0.2.1:8090/",
    ca_pem="PEM",
    insecure=False,
    token="the token",
    cluster_id="c",
    control_plane_count=1,
)


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    with api_server(tmp_path / "api") as api:
        yield api


def bootkube_is_done(site: Site) -> None:
    site.timeline.note("bootkube is done")
    (site.root / "opt/openshift/master.ign").write_text(json.dumps({**EMPTY, "systemd": {"units": []}}))
    (site.root / DONE).touch()


def noted(site: Site, text: str, action: Callable[[], object]) -> Callable[[], None]:
    def both() -> None:
        site.timeline.note(text)
        action()

    return both


def in_order(site: Site, row: str) -> None:
    indices = [stages.STAGES[row].index(Stage(name)) for name, _ in site.timeline.stages()]
    assert indices == sorted(indices)


def test_one_node(machine: Site) -> None:
    run = machine.run("bootstrap", 1)
    run.controller = CONTROLLER
    machine.meanwhile = [lambda: None, lambda: bootkube_is_done(machine)]
    assert flow.execute(run) == 0
    machine.timeline.order(
        '"Starting installation", "progress_info": "bootstrap"',
        "run realpath",
        "run lsblk",
        "run wipefs --all --force /dev/vdc",
        '"Installing", "progress_info": "bootstrap"',
        "GET /clusters/c/downloads/files",
        "run systemctl daemon-reload",
        "GET /infra-env/i/hosts/h/downloads/ignition",
        "run hostname chosen",
        "run systemctl start --no-block bootkube.service",
        '"Waiting for bootkube"',
        "bootkube is done",
        '"Writing image to disk", "progress_info": ""',
        "run coreos-installer",
        '"Writing image to disk", "progress_info": "50%"',
        '"Writing image to disk", "progress_info": "100%"',
        '{"logs_state": "collecting"}',
        "POST /clusters/c/logs",
        '{"logs_state": "completed"}',
        '"Rebooting", "progress_info": ""',
        "run sync",
        "run systemd-run --no-block --collect systemctl reboot",
    )
    in_order(machine, "sno")
    config = written(machine, "/opt/install-dir/master-h.ign")
    assert config == {**OWN, "systemd": {"units": []}}
    assert (machine.root / "mode").read_text().startswith("-rw-------")
    assert machine.timeline.programs()[-1] == "systemd-run --no-block --collect systemctl reboot"
    assert not (machine.root / "opt/openshift/assisted-install-bootstrap").exists()
    assert "restart NetworkManager" not in machine.timeline.file.read_text()
    # What bootkube's logs say is among the logs of a bootstrap host.
    assert any("-u bootkube.service" in line for line in machine.timeline.programs())


def test_the_bootstrap_host_of_three(machine: Site, cluster: Cluster) -> None:
    machine.service.files["bootstrap.ign"] = json.dumps(
        {
            **BOOTSTRAP,
            "storage": {"files": [{"path": "/opt/openshift/auth/kubeconfig", "contents": data(cluster.kubeconfig)}]},
        }
    ).encode()
    machine.service.hosts = [{"id": "w", "role": "worker", "progress": {"current_stage": "Waiting for control plane"}}]
    machine.meanwhile = [
        noted(machine, "one master", lambda: cluster.node("a")),
        noted(machine, "two masters", lambda: cluster.node("b")),
        lambda: bootkube_is_done(machine),
        noted(machine, "etcd is done", lambda: machine.programs.says("systemctl", "inactive")),
        noted(
            machine, "the controller is ready", lambda: cluster.event("assisted-installer", "AssistedControllerIsReady")
        ),
        noted(machine, "the worker is off", machine.service.hosts.clear),
    ]
    assert flow.execute(machine.run("bootstrap", 3)) == 0
    assert machine.meanwhile == []
    machine.timeline.order(
        '"Starting installation"',
        "run systemctl restart NetworkManager.service",
        "run systemctl start --no-block bootkube.service",
        '"Installing"',
        '"Writing image to disk"',
        "run coreos-installer",
        '"Waiting for control plane", "progress_info": "waiting for masters to join the bootstrap control plane"',
        "one master",
        "two masters",
        '"Waiting for bootkube", "progress_info": ""',
        "bootkube is done",
        '"Waiting for bootkube", "progress_info": "waiting for ETCD bootstrap to be complete"',
        "etcd is done",
        '"Waiting for controller", "progress_info": "waiting for controller pod ready event"',
        "the controller is ready",
        "the worker is off",
        '{"logs_state": "collecting"}',
        '"Rebooting"',
        "run sync",
    )
    in_order(machine, "bootstrap")
    assert written(machine, "/opt/install-dir/bootstrap-h.ign") == OWN
    assert machine.timeline.programs()[-1] == (
        "systemd-run --no-block --collect --on-active=15 --timer-property=AccuracySec=1s systemctl reboot"
    )
    assert (machine.root / "opt/openshift/assisted-install-bootstrap").exists()
    assert machine.timeline.argv("hostname") == []


@pytest.mark.parametrize("role", ["master", "arbiter"])
def test_another_host_of_the_control_plane_waits_for_nobody(machine: Site, role: str) -> None:
    assert flow.execute(machine.run(role, 3)) == 0
    assert [stage for stage, _ in machine.timeline.stages()] == [
        *("Starting installation", "Installing"),
        *["Writing image to disk"] * 3,
        "Rebooting",
    ]
    assert machine.timeline.stages()[1] == ("Installing", role)
    assert written(machine, f"/opt/install-dir/{role}-h.ign") == OWN
    assert not any("-u bootkube.service" in line for line in machine.timeline.programs())
    assert machine.timeline.argv("systemctl") == [["--failed", "--no-legend", "--plain"]]


@pytest.mark.parametrize(("role", "count"), [("worker", 3), ("auto-assign", 3), ("worker", 1)])
def test_a_worker_waits_for_two_masters(machine: Site, role: str, count: int) -> None:
    master = {"role": "master", "progress": {"current_stage": "Done"}}
    machine.service.hosts = [master]
    machine.meanwhile = [noted(machine, "two masters", lambda: machine.service.hosts.append(master))]
    assert flow.execute(machine.run(role, count)) == 0
    machine.timeline.order('"Writing image to disk"', '"Waiting for control plane"', "two masters", '"Rebooting"')
    in_order(machine, "worker")
    assert written(machine, f"/opt/install-dir/{role}-h.ign") == OWN


def test_disks_are_formatted_when_asked_for_and_cleaning_can_be_left_out(machine: Site) -> None:
    run = machine.run("master", 3, format_disks=["/dev/vdx", "/dev/vdy"], skip_cleanup=True)
    assert flow.execute(run) == 0
    assert machine.timeline.argv("wipefs") == [["--all", "--force", "/dev/vdx"], ["--all", "--force", "/dev/vdy"]]
    assert [argv[1] for argv in machine.timeline.argv("dd")] == ["of=/dev/vdx", "of=/dev/vdy"]
    assert ["-J", "-p", "-o", "NAME,TYPE,FSTYPE", "/dev/vdc"] not in machine.timeline.argv("lsblk")
    assert len(machine.timeline.stages()) == len(machine.timeline.argv("coreos-installer")) + 5


def test_a_disk_that_cannot_be_cleaned_is_told_and_written(machine: Site) -> None:
    machine.programs.fails("wipefs", "x" * 2000)
    run = machine.run("master", 3, format_disks=["/dev/vdx"])
    assert flow.execute(run) == 0
    stage, info = machine.timeline.stages()[1]
    assert stage == "Starting installation"
    assert info.startswith("Failed to clean up disks: wipefs --all --force: exit code 1: xxx")
    assert len(info) == len("Failed to clean up disks: ") + 900
    assert len(machine.timeline.argv("coreos-installer")) == 1


def test_each_problem_with_disks_is_told(machine: Site) -> None:
    machine.programs.fails("wipefs", "busy")
    flow.execute(machine.run("master", 3, format_disks=["/dev/vdx"]))
    once = "wipefs --all --force: exit code 1: busy"
    assert machine.timeline.stages()[1][1] == f"Failed to clean up disks: {once}; {once}"


def test_arguments_for_coreos_installer_reach_it(machine: Site) -> None:
    machine.programs.add("coreos-installer")
    assert flow.execute(machine.run("master", 3, installer_args=["--copy-network"])) == 0
    assert machine.timeline.argv("coreos-installer")[0][4:] == ["--copy-network", "/dev/vdc"]


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (lambda site: site.programs.fails("coreos-installer", "no space"), "exit code 1: no space"),
        (
            lambda site: site.programs.fails("systemd-run", "no bus"),
            "reboot: systemd-run --no-block --collect: exit code 1: no bus",
        ),
        (lambda site: setattr(site.service, "host_ignition", b"{"), "host ignition: is not JSON"),
        (lambda site: setattr(site.service, "host_ignition", b"[]"), "host ignition: is not an Ignition config"),
        (lambda site: (site.root / "opt").write_text("a file"), "opt"),
    ],
)
def test_what_fails_is_told_as_failed(machine: Site, broken: Callable[[Site], None], text: str) -> None:
    broken(machine)
    assert flow.execute(machine.run("master", 3)) == 1
    stage, info = machine.timeline.stages()[-1]
    assert stage == "Failed"
    assert text in info
    assert len(info) <= 1500


def test_a_long_failure_is_cut(machine: Site) -> None:
    machine.programs.fails("coreos-installer", "x" * 4000)
    flow.execute(machine.run("master", 3))
    assert len(machine.timeline.stages()[-1][1]) == 1500


def test_without_an_ignition_nothing_is_written(machine: Site) -> None:
    with pytest.raises(StageError, match="write image: no ignition was made"):
        flow.write_image(machine.run("master", 3))
    assert machine.timeline.argv("coreos-installer") == []


def test_logs_that_are_not_taken_are_no_failure(machine: Site) -> None:
    answer = machine.service.answer

    def full(method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        return (507, b"") if "logs" in path else answer(method, path, query, body)

    machine.service.answer = full  # type: ignore[method-assign]
    assert flow.execute(machine.run("master", 3)) == 0
    assert machine.timeline.programs()[-1].endswith("systemctl reboot")


def test_the_controller_is_told_before_bootkube_starts(machine: Site) -> None:
    folder = machine.root / "opt/openshift/manifests"
    machine.programs.add("systemctl", f'[ "$3" != bootkube.service ] || ls {folder} > {machine.root}/manifests\n')
    run = machine.run("bootstrap", 1)
    run.controller = CONTROLLER
    flow.start_bootstrap(run)
    names = ["assisted-installer-controller-cm.yaml", "assisted-installer-controller-secret.yaml"]
    assert (machine.root / "manifests").read_text().split() == names
    config, secret = (json.loads((folder / name).read_text()) for name in names)
    place = {"namespace": "assisted-installer"}
    assert config == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "assisted-installer-controller-config", **place},
        "data": {
            "inventory-url": "https://192.0.2.1:8090/",
            "ca-cert": "PEM",
            "skip-cert-verification": "false",
            "cluster-id": "c",
            "control-plane-count": "1",
        },
    }
    assert secret == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "assisted-installer-controller-secret", **place},
        "type": "Opaque",
        "data": {"pull-secret-token": base64.b64encode(b"the token").decode()},
    }
    for name in names:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    # Extracted again after a restart: shorter manifests leave nothing of the longer ones.
    (folder / names[0]).write_text("x" * 5000)
    CONTROLLER.write(machine.host)
    assert json.loads((folder / names[0]).read_text()) == config


def test_every_flow_is_known_to_the_service() -> None:
    assert set(flow.FLOWS) == set(stages.STAGES)


def test_manifests_make_their_folder(site: Site) -> None:
    for _ in range(2):
        CONTROLLER.write(site.host)
    assert len(list((site.root / "opt/openshift/manifests").iterdir())) == 2
