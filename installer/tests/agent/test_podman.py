"""The agent's steps that use podman: a podman that runs and is recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from installer.agent import containers
from installer.agent.errors import StepError
from installer.assisted.steparguments import ImagesRequest
from installer.hostsys.errors import CommandError
from installer.testing.install_kit import AGENT, CA_FILE, DISK, FULL_REQUEST, IMAGE, REQUEST, TOKEN
from installer.testing.orchestrator_kit import Site

LEAST = [
    *("--role", "master", "--infra-env-id", "i", "--cluster-id", "c", "--host-id", "h"),
    *("--boot-device", DISK, "--url", "https://192.0.2.1:8090", "--controller-image", ""),
    *("--agent-image", "agent-image", "--control-plane-count", "3", "--openshift-version", ""),
    "--check-cluster-version=false",
]
RUN = [
    *("run", "--detach", "--privileged", "--pid=host", "--net=host", "--name", "assisted-installer"),
    *("-v", "/dev:/dev:rw", "-v", "/:/host:rw", "-v", "/var/log:/var/log:rw"),
]


def podman(site: Site, **answers: str) -> None:
    """Shell code by podman's first word; ``image`` by its second."""
    cases = "".join(f"{name}) {code} ;;\n" for name, code in answers.items())
    site.programs.add("podman", f'word=$1; [ "$1" != image ] || word=$2\ncase $word in\n{cases}esac\n')


def calls(site: Site) -> list[list[str]]:
    return site.timeline.argv("podman")


def test_an_image_that_is_there_is_not_pulled(site: Site) -> None:
    podman(site)
    containers.pull(site.host, "a", 5)
    assert calls(site) == [["image", "exists", "a"]]


@pytest.mark.parametrize("auth", [True, False])
def test_an_absent_image_is_pulled_with_the_hosts_credentials(site: Site, auth: bool) -> None:
    podman(site, exists="exit 1")
    if auth:
        (site.root / "root/.docker").mkdir(parents=True)
        (site.root / "root/.docker/config.json").touch()
    containers.pull(site.host, "a", 5)
    options = ["--authfile", "/root/.docker/config.json"] if auth else []
    assert calls(site)[1:] == [["pull", "-q", *options, "a"]]


def test_a_podman_that_is_broken_is_not_asked_to_pull(site: Site) -> None:
    podman(site, exists="echo broken >&2; exit 125")
    with pytest.raises(CommandError, match="exit code 125: broken"):
        containers.pull(site.host, "a", 5)
    assert len(calls(site)) == 1


def test_images_are_told_one_by_one(site: Site) -> None:
    podman(site, exists='[ "$3" = here ] || exit 1', pull=f"echo {'x' * 400}gone >&2; exit 1", inspect="echo 5000000")
    answer = json.loads(containers.availability(site.host, ImagesRequest(images=["gone", "here"])))["images"]
    assert answer[0] == {"name": "gone", "result": "failure", "error": "x" * 296 + "gone"}
    here = answer[1]
    assert (here["name"], here["result"], here["size_bytes"]) == ("here", "success", 5000000)
    # The time is told in whole ms, of which a pull that has nothing to do takes few.
    slowest, quickest = 5 / (here["time"] + 0.0005), 5 / max(here["time"] - 0.0005, 1e-9)
    assert slowest * 0.999 <= here["download_rate"] <= quickest * 1.001
    assert ["image", "inspect", "--format", "{{.Size}}", "here"] in calls(site)
    podman(site, inspect="echo unknown; exit 1")
    assert json.loads(containers.availability(site.host, ImagesRequest(images=["a"])))["images"][0]["size_bytes"] == 0
    assert json.loads(containers.availability(site.host, ImagesRequest())) == {"images": []}


def test_the_least_that_the_orchestrator_is_told() -> None:
    assert containers.orchestrator_args(REQUEST, replace(AGENT, ca_file="")) == LEAST


def test_all_that_the_orchestrator_is_told() -> None:
    arguments = containers.orchestrator_args(FULL_REQUEST, AGENT)
    begin = [{"": "controller", "3": "1"}.get(part, part) for part in LEAST[:-1]]
    begin[-1] = "4.18"
    assert arguments == [
        *begin,
        "--check-cluster-version=true",
        *("--format-disk", "/dev/vdx", "--format-disk", "/dev/vdy"),
        *("--mco-image", "mco", "--must-gather-image", "gather", "--coreos-image", "coreos"),
        *("--service-ips", "192.0.2.1,192.0.2.2", "--installer-args", '["-a"]'),
        *("--http-proxy", "http://p", "--no-proxy", "x"),
        *("--skip-installation-disk-cleanup", "--enable-skip-mco-reboot", "--notify-num-reboots"),
        *("--cacert", CA_FILE),
    ]
    assert containers.orchestrator_args(REQUEST, replace(AGENT, insecure=True)) == [*LEAST, "--insecure"]


def test_an_installation(site: Site) -> None:
    podman(site, run="echo TOKEN=$PULL_SECRET_TOKEN >> $0.token", wait="echo 0", logs="echo said; echo more >&2")
    assert containers.install(site.host, REQUEST, AGENT) == "said\nmore\n"
    assert calls(site) == [
        ["image", "exists", IMAGE],
        ["rm", "-f", "-i", "assisted-installer"],
        [*RUN, "-v", f"{CA_FILE}:{CA_FILE}:ro", "--env", "PULL_SECRET_TOKEN", IMAGE, *LEAST, "--cacert", CA_FILE],
        ["wait", "--interval", "3s", "assisted-installer"],
        ["logs", "--tail", "5", "assisted-installer"],
    ]
    # By environment: in nobody's list of processes.
    assert (site.programs.folder / "podman.token").read_text() == f"TOKEN={TOKEN}\n"
    assert TOKEN not in site.timeline.file.read_text()


def test_a_long_farewell_is_cut(site: Site) -> None:
    podman(site, wait="echo 0", logs=f"printf a{'x' * 3000}z")
    assert containers.install(site.host, REQUEST, replace(AGENT, ca_file="")) == "x" * 1999 + "z"
    assert f"-v {CA_FILE}" not in " ".join(calls(site)[2])


def failure(site: Site, **answers: str) -> StepError:
    podman(site, **answers)
    with pytest.raises(StepError) as caught:
        containers.install(site.host, REQUEST, AGENT)
    return caught.value


def test_an_image_that_cannot_be_pulled_in_three_tries(site: Site) -> None:
    error = failure(site, exists="exit 1", pull="echo refused >&2; exit 125")
    assert error.exit_code == 2
    assert error.reason == f"cannot pull {IMAGE}: podman pull -q: exit code 125: refused"
    assert [call[0] for call in calls(site)] == ["image", "pull"] * 3


def test_a_later_try_is_enough(site: Site) -> None:
    pull = "echo x >> $0.tries; [ $(wc -l < $0.tries) = 3 ]"
    podman(site, exists="exit 1", pull=pull, wait="echo 0")
    assert containers.install(site.host, REQUEST, AGENT) == ""


def test_an_installer_that_does_not_start(site: Site) -> None:
    error = failure(site, rm="exit 1", run="seq 7 >&2; echo out; exit 126")
    assert (error.reason, error.exit_code) == ("the installer did not start: 3 | 4 | 5 | 6 | 7", 126)
    assert failure(site, run="echo out; exit 1").reason == "the installer did not start: out"


@pytest.mark.parametrize(("wait", "code"), [("echo 3", 3), ("true", -1)])
def test_an_installer_that_fails(site: Site, wait: str, code: int) -> None:
    error = failure(site, wait=wait, logs="echo one; echo two")
    assert (error.reason, error.exit_code) == (f"the installer ended with code {code}: one | two", code)


def test_stopping(site: Site) -> None:
    podman(site, stop="echo stopped")
    assert containers.stop_installation(site.host) == "stopped\n"
    assert calls(site) == [["stop", "-i", "-t", "5", "assisted-installer"]]
    podman(site, stop="echo no >&2; exit 125")
    with pytest.raises(StepError, match="podman stop -i: exit code 125: no") as caught:
        containers.stop_installation(site.host)
    assert caught.value.exit_code == 125


def test_stopping_without_podman(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: Any, **kwargs: Any) -> Any:
        raise CommandError("podman", None, "not there")

    monkeypatch.setattr(type(site.host), "run", gone)
    with pytest.raises(StepError) as caught:
        containers.stop_installation(site.host)
    assert caught.value.exit_code == -1
