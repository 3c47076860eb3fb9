"""The orchestrator's command line, as the agent starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installer.orchestrator import __main__ as program
from installer.orchestrator import flow
from installer.testing.machine_kit import DONE, EMPTY
from installer.testing.orchestrator_kit import Site, serving

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
    values = {**ARGS, "url": site.service.url, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return [part for name, value in values.items() for part in (f"--{name}", value)]


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
    # OpenShift's agent gives it in front of another flag, and the service's URL with a slash at its end.
    others += ["--check-cluster-version", "--cacert", "", "--url", f"{machine.service.url}/"]
    assert program.main([*argv(machine, installer_args='["--copy-network"]'), *others]) == 0
    assert machine.timeline.argv("coreos-installer")[0][4:] == ["--copy-network", "/dev/vdc"]
    assert [item[-1] for item in machine.timeline.argv("wipefs")] == ["/dev/vdx", "/dev/vdy", "/dev/vdc"]
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
    arguments = argv(machine, cacert=str(ca))
    at = arguments.index("--control-plane-count")
    assert program.main([*arguments[:at], *arguments[at + 2 :]]) == 7
    plan, controller = seen[0].plan, seen[0].controller
    assert (plan.control_plane_count, plan.installer_args, plan.format_disks, plan.skip_cleanup) == (3, [], [], False)
    assert (controller.ca_pem, controller.insecure, controller.token, controller.control_plane_count) == (
        "the CA's text",
        False,
        "",
        3,
    )
    assert program.main([*arguments, "--skip-installation-disk-cleanup"]) == 7
    assert seen[1].plan.skip_cleanup
    assert program.main([*arguments, "--skip-installation-disk-cleanup", "false", "--insecure", "false"]) == 7
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
    stderr = capsys.readouterr().err
    assert stderr.startswith(text)
    assert stderr.count("\n") == 1


@pytest.mark.parametrize("name", [*(name for name in ARGS if name != "control-plane-count"), "url"])
def test_what_has_to_be_given(site: Site, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = argv(site)
    at = arguments.index(f"--{name}")
    with pytest.raises(SystemExit) as caught:
        program.main([*arguments[:at], *arguments[at + 2 :]])
    assert caught.value.code == 2
    assert f"--{name}" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("trust", ["cacert", "insecure"])
def test_the_service_on_tls(machine: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str) -> None:
    monkeypatch.setenv("NODE0_HOST_ROOT", str(machine.root))
    plain = machine.service
    with serving(plain, tmp_path / "tls") as service:
        arguments = argv(machine, role="master", control_plane_count="3")
        flags = ["--cacert", str(tmp_path / "tls/ca.crt")] if trust == "cacert" else ["--insecure"]
        assert program.main([*arguments, *flags]) == 0
        assert service.url.startswith("https:")
    assert machine.timeline.stages()[-1][0] == "Rebooting"
    assert len(machine.timeline.argv("coreos-installer")) == 1
