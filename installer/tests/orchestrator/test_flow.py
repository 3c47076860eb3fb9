"""Whole installations of a host: programs that run, a service and an API on HTTP, and the order of all that happens."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from installer.assisted import stages
from installer.assisted.enums import Stage
from installer.orchestrator import __main__ as program
from installer.orchestrator import flow, report
from installer.orchestrator.controller import Controller
from installer.orchestrator.errors import StageError
from installer.testing.orchestrator_kit import Cluster, Site, api_server, data, serving

DONE = "opt/openshift/.bootkube.done"
EMPTY = {"ignition": {"version": "3.2.0"}}
OWN = {**EMPTY, "storage": {"files": [{"path": "/etc/hostname", "contents": data("chosen")}]}}
BOOTSTRAP = {
    **EMPTY,
    "storage": {"files": [{"path": "/opt/openshift/auth/kubeconfig", "contents": data("k")}]},
    "systemd": {"units": [{"name": "bootkube.service", "contents": "x"}]},
}
QUIET = ("systemctl", "hostname", "dd", "vgremove", "wipefs", "sync", "systemd-run", "journalctl", "podman", "dmesg")
CONTROLLER = Controller("https://192.0.2.1:8090/", "PEM", False, "the token", "c", 1)


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    with api_server(tmp_path / "api") as made:
        yield made


@pytest.fixture
def machine(site: Site) -> Site:
    """A host with an install disk that is known by a link, and the service's files for it."""
    for name in (*QUIET, "mount", "ip"):
        site.programs.add(name)
    site.programs.says("lsblk", '{"blockdevices": [{"name": "/dev/vdc", "type": "disk", "fstype": null}]}')
    site.programs.add("realpath", "[ $2 = /dev/disk/by-id/wanted ] && echo /dev/vdc\n")
    ignition = f"cat {site.root}$4 > {site.root}/written; ls -l {site.root}$4 > {site.root}/mode\n"
    site.programs.add("coreos-installer", f"{ignition}echo 'Read disk (50%)'; echo 'Read disk (100%)'\n")
    site.service.files["bootstrap.ign"] = json.dumps(BOOTSTRAP).encode()
    site.service.host_ignition = json.dumps(OWN).encode()
    return site


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
    found = [stages.STAGES[row].index(Stage(name)) for name, _ in site.timeline.stages()]
    assert found == sorted(found)


def written(site: Site, name: str) -> dict[str, Any]:
    """The ignition that coreos-installer was given; also that it was once, for the right disk."""
    assert site.timeline.argv("coreos-installer") == [["install", "--insecure", "-i", name, "/dev/vdc"]]
    found: dict[str, Any] = json.loads((site.root / "written").read_text())
    return found


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


def test_the_service_is_asked_again_while_it_is_away(site: Site) -> None:
    site.service.statuses = [503, 500]
    site.service.files["a"] = b"content"
    site.meanwhile = [lambda: None] * 2
    assert site.reporter().file("a") == b"content"
    assert site.naps == [2.0, 2.0]
    assert site.service.headers[0]["X-Secret-Key"] == "the token"


@pytest.mark.parametrize("status", [400, 404, 409, 499])
def test_a_refusal_is_final(site: Site, status: int) -> None:
    site.service.statuses = [status]
    with pytest.raises(StageError, match=r"^download a: .*scripted refusal"):
        site.reporter().file("a")
    # Where it may mean that nobody wants this installation any more, that is asked.
    assert len(site.service.headers) == (2 if status in (404, 409) else 1)


def test_a_service_that_stays_away_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(report.time, "monotonic", lambda: clock[0])
    site.service.statuses = [503] * 10
    steps = iter([119.0, 120.0, 120.5])
    site.meanwhile = [lambda: clock.__setitem__(0, next(steps))] * 3
    with pytest.raises(StageError, match=r"^list hosts: "):
        site.reporter().hosts()
    assert len(site.service.headers) == 4


def test_a_stage_that_is_not_taken_is_no_failure(site: Site) -> None:
    site.service.statuses = [409]
    site.reporter().stage(Stage.INSTALLING)
    assert site.timeline.stages() == [("Installing", "")]
    site.service.hosts = []
    assert site.reporter().hosts() == []
    site.service.answer = lambda *args: (200, b"")  # type: ignore[method-assign,assignment]
    assert site.reporter().hosts() == []


def refusing(site: Site, refused: Callable[[dict[str, str]], bool], status: int = 409, hosts: int = 200) -> None:
    """The service takes no progress from the first report on that fits; ``hosts``: its answer when asked why."""
    answer, over = site.service.answer, False

    def scripted(method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        nonlocal over
        if path.endswith("/progress"):
            over = over or refused(json.loads(body))
            return (status, b'{"reason": "scripted refusal"}') if over else (200, b"")
        if path == "/clusters/c/hosts" and hosts != 200:
            return hosts, b'{"reason": "scripted refusal"}'
        return answer(method, path, query, body)

    site.service.answer = scripted  # type: ignore[method-assign]


WRITERS = ("dd", "wipefs", "vgremove", "coreos-installer", "systemd-run")


@pytest.mark.parametrize("role", ["sno", "bootstrap", "master", "arbiter", "worker"])
@pytest.mark.parametrize("status", ["cancelled", "resetting-pending-user-action", "known", "error"])
def test_what_nobody_wants_any_more_writes_nothing(machine: Site, role: str, status: str) -> None:
    machine.service.hosts = [{"id": "other", "status": "installing"}, {"id": "h", "status": status}]
    refusing(machine, lambda body: True)
    run = machine.run("bootstrap" if role == "sno" else role, 1 if role == "sno" else 3, format_disks=["/dev/vdx"])
    assert flow.execute(run) == 1
    assert [name for name in WRITERS if machine.timeline.argv(name)] == []
    # Not that it failed, either: nobody would take that.
    assert [stage for stage, _ in machine.timeline.stages()] == ["Starting installation"]


@pytest.mark.parametrize(("stage", "written"), [("Writing image to disk", 0), ("Rebooting", 1)])
def test_it_ends_where_it_hears_of_it(machine: Site, stage: str, written: int) -> None:
    machine.service.hosts = []
    refusing(machine, lambda body: body["current_stage"] == stage, 404)
    assert flow.execute(machine.run("master", 3)) == 1
    assert len(machine.timeline.argv("coreos-installer")) == written
    assert machine.timeline.argv("systemd-run") == []
    assert machine.timeline.stages()[-1] == (stage, "")


def test_writing_ends_when_it_is_heard_of_meanwhile(machine: Site) -> None:
    machine.programs.add("coreos-installer", "echo 'Read disk (50%)'; sleep 600")
    machine.service.hosts = [{"id": "h", "status": "cancelled"}]
    refusing(machine, lambda body: body["progress_info"] == "50%")
    assert flow.execute(machine.run("master", 3)) == 1
    assert len(machine.timeline.argv("coreos-installer")) == 1
    assert machine.timeline.stages()[-1] == ("Writing image to disk", "50%")


def test_another_attempt_has_begun(machine: Site) -> None:
    refusing(machine, lambda body: True, hosts=409)
    assert flow.execute(machine.run("master", 3)) == 1
    assert machine.timeline.argv("coreos-installer") == []


def test_a_failure_that_nobody_wants_to_hear_of(machine: Site) -> None:
    machine.programs.fails("coreos-installer")
    machine.service.hosts = [{"id": "h", "status": "cancelled"}]
    refusing(machine, lambda body: body["current_stage"] == "Failed")
    assert flow.execute(machine.run("master", 3)) == 1
    assert machine.timeline.stages()[-1][0] == "Failed"


@pytest.mark.parametrize("hosts", [200, 503, 401])
def test_a_stage_out_of_place_ends_nothing(machine: Site, hosts: int) -> None:
    """The service wants this host installed, or does not say."""
    refusing(machine, lambda body: body["current_stage"] == "Installing", hosts=hosts)
    assert flow.execute(machine.run("master", 3)) == 0
    assert len(machine.timeline.argv("coreos-installer")) == 1


#: What assisted-service tells the installer besides (install_cmd of assisted-service).
OTHERS = [
    part
    for name in (
        *("controller-image", "agent-image", "mco-image", "must-gather-image", "coreos-image", "service-ips"),
        *("openshift-version", "http-proxy", "https-proxy", "no-proxy", "check-cluster-version"),
    )
    for part in (f"--{name}", "value")
]
ARGS = {
    "role": "bootstrap",
    "infra-env-id": "i",
    "cluster-id": "c",
    "host-id": "h",
    "boot-device": "/dev/disk/by-id/wanted",
    "control-plane-count": "1",
}


def argv(site: Site, **changes: str) -> list[str]:
    given = {**ARGS, "url": site.service.url, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return [part for name, value in given.items() for part in (f"--{name}", value)]


def test_the_command_line(machine: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE0_HOST_ROOT", str(machine.root))
    monkeypatch.setenv("PULL_SECRET_TOKEN", "a token")
    monkeypatch.setenv("INSTALLATION_ATTEMPT", "the second")
    left = f"cd {machine.root}; echo '{json.dumps(EMPTY)}' > opt/openshift/master.ign; touch {DONE}"
    machine.programs.add("systemctl", f'[ "$3" != bootkube.service ] || {{ {left}; }}\n')
    # As assisted-service calls it: flags alone and with values, and some that are for other payloads.
    others = [
        "--mco-image",
        "m",
        "--notify-num-reboots",
        "--enable-skip-mco-reboot",
        "true",
        "--openshift-version",
        "4.18",
    ]
    others += ["--format-disk", "/dev/vdx", "--format-disk", "/dev/vdy", "--insecure", "--service-ips", "192.0.2.1"]
    assert program.main([*argv(machine, installer_args='["--copy-network"]'), *others]) == 0
    assert machine.timeline.argv("coreos-installer")[0][4:] == ["--copy-network", "/dev/vdc"]
    assert [one[-1] for one in machine.timeline.argv("wipefs")] == ["/dev/vdx", "/dev/vdy", "/dev/vdc"]
    assert {headers["X-Secret-Key"] for headers in machine.service.headers} == {"a token"}
    assert {headers["X-Installation-Attempt"] for headers in machine.service.headers} == {"the second"}
    manifest = machine.root / "opt/openshift/manifests/assisted-installer-controller-cm.yaml"
    assert json.loads(manifest.read_text())["data"] == {
        "inventory-url": machine.service.url,
        "ca-cert": "",
        "skip-cert-verification": "true",
        "cluster-id": "c",
        "control-plane-count": "1",
        "installation-attempt": "the second",
    }


def test_defaults_are_three_masters_with_cleaning(
    machine: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[flow.Run] = []
    monkeypatch.setattr(flow, "execute", lambda run: seen.append(run) or 7)
    monkeypatch.delenv("PULL_SECRET_TOKEN", raising=False)
    monkeypatch.delenv("INSTALLATION_ATTEMPT", raising=False)
    ca = tmp_path / "ca"
    ca.write_text("the CA's text")
    given = argv(machine, cacert=str(ca))
    at = given.index("--control-plane-count")
    assert program.main([*given[:at], *given[at + 2 :]]) == 7
    made, controller = seen[0].plan, seen[0].controller
    assert (made.control_plane_count, made.installer_args, made.format_disks, made.skip_cleanup) == (3, [], [], False)
    assert (controller.ca_pem, controller.insecure, controller.token, controller.control_plane_count) == (
        "the CA's text",
        False,
        "",
        3,
    )
    assert program.main([*given, "--skip-installation-disk-cleanup"]) == 7
    assert seen[1].plan.skip_cleanup
    assert program.main([*given, "--skip-installation-disk-cleanup", "false", "--insecure", "false"]) == 7
    assert not seen[2].plan.skip_cleanup


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"url": "ftp://x"}, "assisted-installer: service URL: 'ftp://x'"),
        ({"installer_args": "{}"}, "assisted-installer: --installer-args: must be a JSON list of strings"),
        ({"cacert": "/no/such/file"}, "assisted-installer: "),
    ],
)
def test_bad_arguments_are_one_line(
    site: Site, capsys: pytest.CaptureFixture[str], changes: dict[str, str], text: str
) -> None:
    assert program.main(argv(site, **changes)) == 1
    said = capsys.readouterr().err
    assert said.startswith(text)
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", [*(name for name in ARGS if name != "control-plane-count"), "url"])
def test_what_has_to_be_given(site: Site, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = argv(site)
    at = given.index(f"--{name}")
    with pytest.raises(SystemExit) as caught:
        program.main([*given[:at], *given[at + 2 :]])
    assert caught.value.code == 2
    assert f"--{name}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("trust", ["cacert", "insecure"])
def test_the_service_on_tls(machine: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str) -> None:
    monkeypatch.setenv("NODE0_HOST_ROOT", str(machine.root))
    plain = machine.service
    with serving(plain, tmp_path / "tls") as service:
        given = argv(machine, role="master", control_plane_count="3")
        flags = ["--cacert", str(tmp_path / "tls/ca.crt")] if trust == "cacert" else ["--insecure"]
        assert program.main([*given, *flags]) == 0
        assert service.url.startswith("https:")
    assert machine.timeline.stages()[-1][0] == "Rebooting"
    assert len(machine.timeline.argv("coreos-installer")) == 1


@pytest.mark.parametrize("text", [b"[]", b"{}", b'"ignition"', b'["ignition"]', b"1"])
def test_what_is_no_ignition_config(text: bytes) -> None:
    with pytest.raises(StageError, match=r"^a.ign: is not an Ignition config$"):
        report.parse(text, "a.ign")


def test_an_ignition_config() -> None:
    assert report.parse(b'{"ignition": {}}', "a.ign") == {"ignition": {}}
    with pytest.raises(StageError, match=r"^a.ign: is not JSON: "):
        report.parse(b"{", "a.ign")


def test_a_service_that_nobody_listens_at_is_asked_again(site: Site) -> None:
    reporter = site.reporter()
    reporter.client = site.client("http://127.0.0.1:1")

    def there() -> None:
        reporter.client = site.client()

    site.service.host_ignition = b"x"
    site.meanwhile = [there]
    assert reporter.host_ignition() == b"x"
    assert site.naps == [2.0]


def test_manifests_make_their_folder(site: Site) -> None:
    for _ in range(2):
        CONTROLLER.write(site.host)
    assert len(list((site.root / "opt/openshift/manifests").iterdir())) == 2
