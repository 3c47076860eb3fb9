"""The orchestrator: extraction, merge, disk writing with a real child process, order of stages, error path."""

from __future__ import annotations

import base64
import gzip
import json
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from installer.agent import logs
from installer.agent.errors import CommandError
from installer.agent.hostsys import HostSystem
from installer.orchestrator import bootstrap, disk, flow, ignfs
from installer.orchestrator.controller import Controller
from installer.orchestrator.errors import StageError
from installer.orchestrator.report import Reporter
from installer.rendezvous import hostignition, stages
from installer.rendezvous.enums import Stage


def data(text: str) -> dict[str, str]:
    return {"source": "data:;base64," + base64.b64encode(text.encode()).decode()}


CONFIG: dict[str, Any] = {
    "ignition": {"version": "3.2.0"},
    "storage": {
        "directories": [{"path": "/opt/openshift/auth", "mode": 0o700}],
        "files": [
            {"path": "/usr/local/bin/bootkube.sh", "mode": 0o555, "contents": data("#!/bin/sh\n")},
            {"path": "/opt/openshift/auth/kubeconfig", "mode": 0o600, "contents": data("k")},
            {"path": "/etc/motd", "append": [data("hello\n")]},
            {
                "path": "/opt/zipped",
                "contents": {
                    "compression": "gzip",
                    "source": "data:;base64," + base64.b64encode(gzip.compress(b"zipped", mtime=0)).decode(),
                },
            },
            {"path": "/opt/plain", "contents": {"source": "data:,a%20b"}},
        ],
        "links": [{"path": "/etc/link", "target": "/opt/plain"}],
    },
    "systemd": {
        "units": [
            {
                "name": "bootkube.service",
                "contents": "[Service]\n",
                "dropins": [{"name": "10-a.conf", "contents": "x"}],
            },
            {"name": "progress.service", "enabled": True, "contents": "[Service]\n"},
            {"name": "bad.service", "mask": True},
        ]
    },
}


def test_extract_twice_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/motd").write_text("welcome\n")
    for _ in range(2):
        result = ignfs.Writer(tmp_path, chown=False).extract(CONFIG)
        assert (result.enable, result.mask) == (["progress.service"], ["bad.service"])
        assert stat.S_IMODE((tmp_path / "usr/local/bin/bootkube.sh").stat().st_mode) == 0o555
        assert stat.S_IMODE((tmp_path / "opt/openshift/auth/kubeconfig").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "opt/openshift/auth").stat().st_mode) == 0o700
        assert (tmp_path / "etc/motd").read_text() == "welcome\nhello\n"
        assert (tmp_path / "opt/zipped").read_bytes() == b"zipped"
        assert (tmp_path / "opt/plain").read_text() == "a b"
        assert (tmp_path / "etc/link").readlink() == Path("/opt/plain")
        assert (tmp_path / "etc/systemd/system/bootkube.service.d/10-a.conf").read_text() == "x"


@pytest.mark.parametrize("path", ["relative", "/a/../../etc/x", ""])
def test_paths_stay_inside(tmp_path: Path, path: str) -> None:
    config = {"storage": {"files": [{"path": path, "contents": data("x")}]}}
    with pytest.raises(StageError):
        ignfs.Writer(tmp_path, chown=False).extract(config)


def test_links_do_not_lead_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "etc").mkdir(parents=True)
    outside.mkdir()
    (root / "etc/out").symlink_to(outside)
    ignfs.Writer(root, chown=False).extract({"storage": {"files": [{"path": "/etc/out/x", "contents": data("x")}]}})
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "x").read_text() == "x"


def test_remote_sources_are_refused() -> None:
    with pytest.raises(StageError, match="not a data URL"):
        ignfs.decode_source("https://192.0.2.1/x")


@given(st.binary(max_size=200))
def test_data_urls_carry_any_bytes(content: bytes) -> None:
    assert ignfs.decode_source("data:;base64," + base64.b64encode(content).decode()) == content


@given(st.lists(st.integers(0, 100)))
def test_percentages_are_at_least_five_apart_and_end_with_100(values: list[int]) -> None:
    seen: list[int] = []
    percentages = disk.Percentages(lambda text: seen.append(int(text.rstrip("%"))))
    for value in values:
        percentages.feed(f"Read disk 27.0 MiB/157.0 MiB ({value}%)")
    assert all(second - first >= 5 or second == 100 for first, second in pairwise(seen))
    assert (100 in values) == (100 in seen)
    assert seen == sorted(seen)


def fake_installer(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = directory / "coreos-installer"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    monkeypatch.setattr(disk, "PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setattr(disk, "installer_command", lambda *args: [str(program), *map(str, args[:2])])


def test_writing_reports_progress_of_a_real_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "for p in 1 3 6 40 41 99 100; do printf '> Read disk 1 MiB/2 MiB (%s%%)   \\r' $p >&2; done\n"
    fake_installer(tmp_path, script, monkeypatch)
    seen: list[str] = []
    disk.write_image(HostSystem(Path("/")), Path("/x.ign"), "/dev/vda", [], seen.append)
    assert seen == ["6%", "40%", "99%", "100%"]


def test_writing_tries_three_times_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_installer(tmp_path, f"echo x >> {tmp_path}/tries; echo 'Error: disk is full' >&2; exit 1\n", monkeypatch)
    with pytest.raises(StageError, match=r"/dev/vda in 3 tries: exit code 1: Error: disk is full"):
        disk.write_image(HostSystem(Path("/")), Path("/x.ign"), "/dev/vda", [], lambda text: None)
    assert (tmp_path / "tries").read_text().count("x") == 3


def test_merge_drops_the_pointer_and_keeps_the_name(tmp_path: Path) -> None:
    master = tmp_path / "opt/openshift/master.ign"
    master.parent.mkdir(parents=True)
    files = [{"path": "/etc/hostname", "contents": data("old")}, {"path": "/x", "contents": data("x")}]
    master.write_text(json.dumps({"ignition": {"version": "3.2.0"}, "storage": {"files": files}}))
    own = {
        "ignition": {"version": "3.1.0", "config": {"merge": [{"source": "https://api-int:22623/config/master"}]}},
        "storage": {"files": [{"path": "/etc/hostname", "mode": 420, "contents": data("master-0")}]},
    }
    merged = json.loads(bootstrap.merged_master(HostSystem(tmp_path), own))
    assert merged["ignition"] == {"version": "3.2.0"}
    assert [item["path"] for item in merged["storage"]["files"]] == ["/etc/hostname", "/x"]
    assert ignfs.content_of(merged["storage"]["files"][0]["contents"]) == b"master-0"
    with pytest.raises(StageError, match=r"master\.ign"):
        bootstrap.merged_master(HostSystem(tmp_path / "none"), own)


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2)),
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.lists(st.integers(), max_size=2)),
)
def test_ignition_merge_laws(base: dict[str, Any], child: dict[str, Any]) -> None:
    once = hostignition.merge(base, child)
    assert set(once) == set(base) | set(child)
    assert hostignition.merge(base, {}) == base
    assert hostignition.merge(once, child) == once


class FakeHost(HostSystem):
    """Programs are recorded; bootkube's end and the disk's content come from the script of the test."""

    def __init__(self, root: Path, fail: str = "") -> None:
        super().__init__(root)
        object.__setattr__(self, "ran", [])
        object.__setattr__(self, "fail", fail)

    def run(self, *args: str, timeout: float = 60.0, check: bool = True, stdin: str | None = None) -> str:
        self.ran.append(" ".join(args))  # type: ignore[attr-defined]
        if self.fail and self.fail in " ".join(args):  # type: ignore[attr-defined]
            raise CommandError(args[0], 1, "scripted failure")
        if args[:3] == ("systemctl", "show", "-p"):
            return "loaded"
        if args == ("systemctl", "start", "--no-block", "bootkube.service"):
            done = self.path(bootstrap.DONE)
            done.touch()
            self.path(bootstrap.MASTER_IGNITION).write_text('{"ignition": {"version": "3.2.0"}}')
        if args[0] == "lsblk":
            return '{"blockdevices": []}'
        return ""


class FakeClient:
    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []

    def call(self, method: str, path: str, body: Any = None, query: Any = None, headers: Any = None) -> Any:
        if path.endswith("/hosts/h/progress"):
            self.stages.append((body["current_stage"], body["progress_info"]))
        return []

    def download(self, path: str, query: Any = None) -> bytes:
        return json.dumps(CONFIG).encode()

    def upload(self, path: str, query: Any, file: Any, name: str) -> None:
        return None


def run_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, count: int, fail: str = "") -> Any:
    client, host = FakeClient(), FakeHost(tmp_path, fail)

    def write(host: Any, ignition: Path, device: str, extra: Any, report: Any) -> None:
        assert host.path(str(ignition)).is_file()
        report("100%")

    monkeypatch.setattr(disk, "write_image", write)
    monkeypatch.setattr(logs, "send", lambda *args: None)
    monkeypatch.setattr(ignfs.Writer, "_own", lambda *args: None)
    plan = flow.Plan(role=role, boot_device="/dev/vda", control_plane_count=count)
    reporter = Reporter(client, "i", "c", "h", sleep=lambda seconds: None)  # type: ignore[arg-type]
    run = flow.Run(plan=plan, host=host, reporter=reporter, sleep=lambda seconds: None, controller=CONTROLLER)
    code = flow.execute(run)
    return code, client.stages, host.ran  # type: ignore[attr-defined]


@pytest.mark.parametrize(("role", "count", "row"), [("bootstrap", 1, "sno"), ("master", 3, "master")])
def test_stages_come_in_the_order_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, count: int, row: str
) -> None:
    code, seen, ran = run_flow(tmp_path, monkeypatch, role, count)
    assert code == 0
    order = [stages.STAGES[row].index(Stage(name)) for name, _ in seen]
    assert order == sorted(order)
    assert seen[-1][0] == "Rebooting"
    assert ran[-1].endswith("systemctl reboot")
    assert (f"--on-active={flow.REBOOT_SECONDS}" in ran[-1]) == (count > 1)


CONTROLLER = Controller("https://192.0.2.1:8090/", "PEM", False, "the token", "c", 1)


def test_the_controller_is_told_where_the_service_is_before_bootkube_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    start = bootstrap.start
    folder = tmp_path / "opt/openshift/manifests"

    def noted(host: HostSystem, config: Any) -> None:
        seen.extend(path.name for path in folder.iterdir())
        start(host, config)

    monkeypatch.setattr(bootstrap, "start", noted)
    code, _, _ = run_flow(tmp_path, monkeypatch, "bootstrap", 1)
    assert code == 0
    assert set(seen) == {"assisted-installer-controller-cm.yaml", "assisted-installer-controller-secret.yaml"}
    objects = [yaml.safe_load((folder / name).read_text()) for name in sorted(seen)]
    config, secret = objects
    assert {item["metadata"]["namespace"] for item in objects} == {"assisted-installer"}
    assert (config["kind"], config["metadata"]["name"]) == ("ConfigMap", "assisted-installer-controller-config")
    assert config["data"]["inventory-url"] == "https://192.0.2.1:8090/"
    assert config["data"]["cluster-id"] == "c"
    assert base64.b64decode(secret["data"]["pull-secret-token"]) == b"the token"
    assert "the token" not in json.dumps(config)
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_node_of_its_own_takes_the_name_that_it_was_given(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    own = {"storage": {"files": [{"path": "/etc/hostname", "contents": data("chosen")}]}}
    for _ in range(2):
        bootstrap.take_hostname(host, own)
    assert (tmp_path / "etc/hostname").read_text() == "chosen\n"
    assert host.ran == ["hostname chosen"]  # type: ignore[attr-defined]
    bootstrap.take_hostname(host, {})
    assert host.ran == ["hostname chosen"]  # type: ignore[attr-defined]
    failing = tmp_path / "failing"
    failing.mkdir()
    with pytest.raises(StageError, match="hostname"):
        bootstrap.take_hostname(FakeHost(failing, fail="hostname"), own)


def test_an_error_ends_in_failed_with_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, seen, _ = run_flow(tmp_path, monkeypatch, "bootstrap", 1, fail="start --no-block bootkube")
    assert code == 1
    assert seen[-1][0] == "Failed"
    assert "start bootkube" in seen[-1][1]
    assert "scripted failure" in seen[-1][1]


def test_every_flow_is_known_to_the_service() -> None:
    assert set(flow.FLOWS) == set(stages.STAGES)


def test_bootkube_that_gave_up(tmp_path: Path) -> None:
    now = [0.0]

    class Dead(FakeHost):
        def run(self, *args: str, timeout: float = 60.0, check: bool = True, stdin: str | None = None) -> str:
            return "failed" if "is-active" in args else "etcd did not start"

    def sleep(seconds: float) -> None:
        now[0] += seconds

    words: list[str] = []
    with pytest.raises(StageError, match="etcd did not start"):
        bootstrap.wait_bootkube(Dead(tmp_path), words.append, clock=lambda: now[0], sleep=sleep)
    assert words == ["etcd did not start"]
