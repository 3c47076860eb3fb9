"""The temporary control plane: what is started, and when bootkube counts as done or as failed."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from installer.assisted.stages import FAILS_AGAIN
from installer.hostsys.system import HostSystem
from installer.orchestrator import bootstrap
from installer.orchestrator.errors import StageError
from installer.testing.orchestrator_kit import Site, data

UNITS = {
    "systemd": {
        "units": [
            {"name": "own.service", "enabled": True, "contents": "x"},
            {"name": "progress.service", "enabled": True, "contents": "x"},
            {"name": "absent.service", "enabled": True},
            {"name": "off.service", "enabled": False, "contents": "x"},
            {"name": "bad.service", "enabled": True, "mask": True},
        ]
    }
}
#: systemctl as far as it is asked: which units there are is a file's content.
SYSTEMCTL = """
case "$1" in
  show) grep -q "^$5$" "$UNITS" && echo loaded || echo not-found ;;
esac
exit 0
"""


def units(site: Site, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    file = site.root / "units"
    file.write_text("".join(f"{name}\n" for name in names))
    monkeypatch.setenv("UNITS", str(file))
    site.programs.add("systemctl", SYSTEMCTL)


@pytest.mark.parametrize("sno", [True, False])
def test_units_are_reread_then_masked_then_enabled(site: Site, sno: bool) -> None:
    site.programs.add("systemctl")
    bootstrap.extract(site.host, UNITS, sno)
    wanted = ["daemon-reload", "mask bad.service"]
    wanted += [f"enable {name}" for name in ("own.service", "progress.service", "absent.service")]
    # With several nodes, etcd is to know that this host comes back as a master; one node needs no other resolver.
    wanted += [] if sno else ["restart NetworkManager.service"]
    assert site.timeline.programs() == [f"systemctl {words}" for words in wanted]
    assert (site.root / "opt/openshift/assisted-install-bootstrap").exists() is not sno
    assert (site.root / "etc/systemd/system/own.service").read_text() == "x"


def test_extracting_again_changes_nothing(site: Site) -> None:
    site.programs.add("systemctl")
    for _ in range(2):
        bootstrap.extract(site.host, UNITS, False)


def test_a_unit_that_cannot_be_enabled_ends_it(site: Site) -> None:
    site.programs.fails("systemctl", "no such unit")
    with pytest.raises(StageError, match=r"^prepare bootstrap: systemctl daemon-reload: exit code 1: no such unit"):
        bootstrap.extract(site.host, UNITS, True)


def test_the_name_is_taken_once(site: Site) -> None:
    site.programs.add("hostname")
    own = {"storage": {"files": [{"path": "/etc/hostname", "contents": data("chosen\n")}]}}
    for _ in range(2):
        bootstrap.take_hostname(site.host, own)
    assert (site.root / "etc/hostname").read_text() == "chosen\n"
    assert site.timeline.programs() == ["hostname chosen"]
    bootstrap.take_hostname(site.host, {})
    (site.root / "etc/hostname").write_text("other\n")
    bootstrap.take_hostname(site.host, own)
    assert site.timeline.programs() == ["hostname chosen"] * 2
    (site.root / "etc/hostname").unlink()
    site.programs.fails("hostname", "not permitted")
    with pytest.raises(StageError, match=r"^set the hostname: hostname chosen: exit code 1: not permitted"):
        bootstrap.take_hostname(site.host, own)


def test_what_is_there_is_started_bootkube_always(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    units(site, monkeypatch, "own.service", "progress.service", "off.service", "bad.service")
    bootstrap.start(site.host, UNITS)
    started = [line for line in site.timeline.programs() if " start " in line]
    assert started == [
        f"systemctl start --no-block {name}" for name in ("own.service", "progress.service", "bootkube.service")
    ]
    asked = [line for line in site.timeline.programs() if " show " in line]
    assert asked == [
        f"systemctl show -p LoadState --value {name}"
        for name in ("own.service", "progress.service", "absent.service", "approve-csr.service")
    ]


@pytest.mark.parametrize("config", [{}, {"systemd": None}, {"systemd": {"units": None}}])
def test_without_units_of_its_own(site: Site, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]) -> None:
    units(site, monkeypatch, "approve-csr.service", "progress.service")
    bootstrap.start(site.host, config)
    started = [line.split()[-1] for line in site.timeline.programs() if " start " in line]
    assert started == ["bootkube.service", "approve-csr.service", "progress.service"]


def test_a_companion_that_does_not_start_is_no_reason_to_stop(site: Site) -> None:
    site.programs.add("systemctl", 'echo loaded\n[ "$1 $3" != "start own.service" ]\n')
    bootstrap.start(site.host, UNITS)
    assert site.timeline.programs()[-1] == "systemctl start --no-block approve-csr.service"


def test_a_bootkube_that_does_not_start_stops_the_installation(site: Site) -> None:
    site.programs.add("systemctl", 'echo loaded\n[ "$3" != bootkube.service ] || { echo masked >&2; exit 4; }\n')
    with pytest.raises(StageError, match=r"^start bootkube: systemctl start --no-block: exit code 4: masked"):
        bootstrap.start(site.host, UNITS)


def test_last_words_of_a_unit_and_of_an_identifier(site: Site) -> None:
    site.programs.says("journalctl", " one \n\n\ntwo\n" + "x" * 2000 + "\n")
    words = bootstrap.journal_tail(site.host, "a.service")
    assert len(words) == 1500
    assert set(words) == {"x"}
    site.programs.says("journalctl", " one \n\n\ntwo\n")
    assert bootstrap.journal_tail(site.host, "a.service") == "one | two"
    assert bootstrap.journal_tail(site.host, "a.service", 7, "script.sh") == "one | two"
    rest = ["-o", "cat", "--no-pager"]
    assert site.timeline.argv("journalctl")[1:] == [
        ["-u", "a.service", "-n", "5", *rest],
        ["-t", "script.sh", "-n", "7", *rest],
    ]
    site.programs.fails("journalctl")
    assert bootstrap.journal_tail(site.host, "a.service") == ""


class Bootkube:
    """A clock that only pauses move, and what systemd and the journal say at each second of it."""

    def __init__(self, site: Site, until: float) -> None:
        self.site, self.now, self.until = site, 1000.0, until
        self.begin = self.now
        self.words: list[tuple[float, str]] = []
        self.state: dict[float, str] = {}
        self.journal: dict[float, str] = {}
        # The ids of the unit's runs, by when they begin.
        self.runs: dict[float, str] = {}
        self._shown = {"ActiveState": "active", "InvocationID": "run0"}
        site.programs.says("systemctl", "ActiveState=active\nInvocationID=run0\n")
        site.programs.says("journalctl", "")
        (site.root / "opt/openshift").mkdir(parents=True)

    def sleep(self, seconds: float) -> None:
        assert seconds == bootstrap.POLL_SECONDS
        self.now += seconds
        passed = self.now - self.begin
        if passed in self.journal:
            self.site.programs.says("journalctl", self.journal[passed] + "\n")
        self._shown["ActiveState"] = self.state.get(passed, self._shown["ActiveState"])
        self._shown["InvocationID"] = self.runs.get(passed, self._shown["InvocationID"])
        self.site.programs.says("systemctl", "".join(f"{name}={value}\n" for name, value in self._shown.items()))
        if passed >= self.until:
            (self.site.root / "opt/openshift/.bootkube.done").touch()
        assert passed < 500, "it waits for ever"

    def wait(self) -> float:
        def report(text: str) -> None:
            self.words.append((self.now - self.begin, text))

        bootstrap.wait_bootkube(self.site.host, report, lambda: self.now, self.sleep)
        return self.now - self.begin


def test_bootkube_is_waited_for_and_heard(site: Site) -> None:
    world = Bootkube(site, until=70)
    world.journal = {10: "etcd is up", 40: "y" * 1000, 55: ""}
    assert world.wait() == 70
    # Looked at every 15 s; the same line is not reported twice.
    assert world.words == [(15, "etcd is up"), (45, "y" * 900)]
    shown = ["show", "-p", "ActiveState", "-p", "InvocationID", "bootkube.service"]
    assert site.timeline.argv("systemctl") == [shown] * 4
    assert site.timeline.argv("journalctl")[0] == ["-t", "bootkube.sh", "-n", "1", "-o", "cat", "--no-pager"]


def test_bootkube_that_is_done_already(site: Site) -> None:
    (site.root / "opt/openshift").mkdir(parents=True)
    (site.root / "opt/openshift/.bootkube.done").touch()
    bootstrap.wait_bootkube(site.host, pytest.fail, sleep=pytest.fail)  # type: ignore[arg-type]


def test_bootkube_that_nobody_starts_again(site: Site) -> None:
    world = Bootkube(site, until=1000)
    world.state, world.journal = {20: "failed"}, {20: "etcd did not start"}
    with pytest.raises(StageError, match=r"^bootkube.service failed: etcd did not start$"):
        world.wait()
    # Seen at 30, 45, 60, 75 and 90 s; reported after more than 60 s of it.
    assert world.now - world.begin == 105
    assert site.timeline.argv("journalctl")[-1][:4] == ["-u", "bootkube.service", "-n", "5"]


def test_bootkube_that_failed_for_a_while_only(site: Site) -> None:
    world = Bootkube(site, until=200)
    world.state = {20: "failed", 80: "activating", 110: "failed", 160: "active"}
    assert world.wait() == 200


def test_bootkube_that_fails_again_says_what_it_failed_with(site: Site) -> None:
    world = Bootkube(site, until=200)
    world.journal = {5: "Error: manifest unknown", 70: "etcd is up"}
    # Three runs fail; the fourth does not.
    world.runs = {10: "run1", 28: "run2", 40: "run3", 55: "run4"}
    assert world.wait() == 200
    # One failure may be over at the next try. Long after the last one, what is said is what it does now.
    assert world.words == [
        (15, "Error: manifest unknown"),
        (45, f"{FAILS_AGAIN}Error: manifest unknown"),
        (135, "etcd is up"),
    ]
    of_a_run = [line[-1] for line in site.timeline.argv("journalctl") if line[-1] != "--no-pager"]
    assert of_a_run == [f"_SYSTEMD_INVOCATION_ID={run}" for run in ("run1", "run2", "run3")]


def test_bootkube_that_failed_once(site: Site) -> None:
    world = Bootkube(site, until=100)
    world.journal, world.runs = {5: "connection refused"}, {20: "run1"}
    world.wait()
    assert world.words == [(15, "connection refused")]


def master(site: Site, **config: Any) -> None:
    path = site.root / "opt/openshift/master.ign"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("3.2.0", "3.1.0", "3.2.0"),
        ("3.2.0", "3.10.0", "3.10.0"),
        ("3.2.0-experimental", "3.1.0", "3.2.0-experimental"),
        ("2.9.9", None, "3.0.0"),
        ("3.0.1", None, "3.0.1"),
    ],
)
def test_the_newer_version_of_two_ignitions(site: Site, first: str, second: str | None, result: str) -> None:
    master(site, ignition={"version": first}, storage={"files": [{"path": "/a"}]})
    own = {"ignition": {"version": second} if second else {}, "systemd": {"units": []}}
    merged = json.loads(bootstrap.merged_master(site.host, own))
    assert merged == {"ignition": {"version": result}, "storage": {"files": [{"path": "/a"}]}, "systemd": {"units": []}}


def test_a_host_without_ignition_of_its_own(site: Site) -> None:
    master(site, ignition={"version": "3.2.0"})
    assert bootstrap.merged_master(site.host, {}) == b'{"ignition":{"version":"3.2.0"}}'


@pytest.mark.parametrize("text", [None, "{", "\ufffd"])
def test_an_ignition_that_bootkube_did_not_leave(site: Site, text: str | None) -> None:
    master(site)
    path = site.root / "opt/openshift/master.ign"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(StageError, match=r"^/opt/openshift/master.ign: "):
        bootstrap.merged_master(site.host, {})


def test_ignitions_are_for_the_owners_eyes(site: Site) -> None:
    for content in (b"long secret", b"new"):
        path = bootstrap.store_ignition(site.host, "a.ign", content)
    assert path == Path("/opt/install-dir/a.ign")
    file = site.root / "opt/install-dir/a.ign"
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_host_that_is_this_machine_needs_no_other_namespaces() -> None:
    assert HostSystem(Path("/")).command(["lsblk"]) == ["lsblk"]
