"""wait-for bootstrap-complete against a service and a cluster that answer over TLS (waitfor_kit)."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from typing import Any

import pytest

from installer.assisted.stages import FAILS_AGAIN
from installer.observe import outside
from installer.testing.waitfor_kit import (
    BOOTSTRAP_CM,
    DONE,
    OTHER_CA,
    QUICK,
    SERVICE_CA,
    TOKEN,
    TOO_SMALL,
    Moment,
    cluster,
    config_map,
    event,
    host,
)
from installer.waitfor.bootstrap import Bootstrap
from installer.waitfor.command import execute

# A single node from nothing to its reboot: both APIs die there, and the installed system's API comes back.
SINGLE_NODE = [
    Moment(),
    Moment(cluster("insufficient"), [host("master-0", "discovering")], [event("registered")]),
    Moment(
        cluster("ready"), [host("master-0", "known")], [event("registered"), event("slow disk", "warning")],
        evaluations=1,
    ),
    Moment(cluster("preparing-for-installation"), [host("master-0", "preparing-for-installation")]),
    Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Waiting for bootkube")],
           kube={BOOTSTRAP_CM: config_map(status="progressing")}),
    Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Rebooting")], [event("rebooting")],
           kube={}),
    Moment(evaluations=8),
]  # fmt: skip


EVENTS = ["registered", "slow disk", "rebooting"]


def test_single_node_through_its_reboot(run):
    assert run([*SINGLE_NODE, Moment(kube=DONE)]) == 0
    info, all_lines = run.lines("INFO"), run.lines()
    wanted = [
        "Waiting for cluster install to initialize", "Cluster is not ready for install. Check validations",
        "Cluster is ready for install", "Cluster is preparing for installation", "Bootstrap Kube API Initialized",
        "Cluster installation in progress", "Bootstrap configMap status is complete", "Bootstrap is complete",
        "cluster bootstrap is complete",
    ]  # fmt: skip
    assert list(dict.fromkeys(line for line in info if line in wanted)) == wanted
    assert sum("rebooting into its installed system" in line for line in info) == 1
    assert all_lines.count("registered") == 1
    assert "slow disk" in run.lines("WARNING")
    assert not run.lines("ERROR")
    kept = json.loads((run.dir / "logs" / "events.json").read_text())
    assert [item["message"] for item in kept] == EVENTS
    assert not run.world.refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        (json.dumps([event("an earlier command has shown this")]), ["slow disk", "rebooting"]),
        (json.dumps([event("registered") | {"event_time": "of another installation"}]), EVENTS),
        ("[", EVENTS),
        ('{"a": 1}', EVENTS),
    ],
)
def test_events_that_an_earlier_command_has_shown_are_not_shown_again(run, kept, shown):
    (run.dir / "logs").mkdir(parents=True)
    (run.dir / "logs" / "events.json").write_text(kept)
    assert run([*SINGLE_NODE, Moment(kube=DONE)]) == 0
    assert [line for line in run.lines("INFO") + run.lines("WARNING") if line in EVENTS] == [
        *(text for text in shown if text != "slow disk"), "slow disk",
    ]  # fmt: skip
    assert [item["message"] for item in json.loads((run.dir / "logs" / "events.json").read_text())] == EVENTS


def test_a_time_out_tells_first_that_the_api_has_never_answered(run):
    """The rendezvous host has become its installed system, and the API's name leads elsewhere, say."""
    gone = Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Rebooting")],
                  [event("a disk was slow", "error")])  # fmt: skip
    assert run([gone, Moment()], timeout=1.5) == 5
    first, *_ = run.lines("ERROR")
    assert first.startswith("The cluster's API https://127.0.0.1:")
    assert "has never answered" in first
    assert first in run.lines("WARNING"), "told before the time is over"


def log_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name in ("master-0.log", "../../evil"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"text"))
    return file.getvalue()


def test_too_small_host_ends_with_the_cause_first_and_logs(run):
    small = host("master-0", "insufficient", has_min_memory=TOO_SMALL, ntp_synced=("failure", "no NTP"))
    waits = host("master-0", "discovering", has_min_memory=("pending", "Missing inventory"))
    not_ready = cluster("insufficient", all_hosts_are_ready_to_install=("failure", "1 host is not ready"))
    packed = log_archive()
    code = run([Moment(cluster("insufficient"), [waits], evaluations=6), Moment(not_ready, [small])], archive=packed)
    assert code == 5
    errors = run.lines("ERROR")
    assert errors[:2] == [
        f"Host master-0 validation has-min-memory failed: {TOO_SMALL[1]}",
        "Cluster validation all-hosts-are-ready-to-install failed: 1 host is not ready",
    ]
    assert errors[2] == "Bootstrap failed to complete"
    assert "bootstrap process returned error" in errors[3]
    assert f"Host master-0 validation: {TOO_SMALL[1]}" in run.lines("WARNING")
    logs = run.dir / "logs"
    assert (logs / "cluster" / "master-0.log").read_text() == "text"
    assert (logs / "cluster-logs.tar.gz").read_bytes() == packed
    assert not (run.dir / "evil").exists()
    kept = (logs / "hosts.json").read_text() + (logs / "cluster.json").read_text()
    assert "found 2048 MiB" in kept
    assert TOKEN not in kept
    assert "very secret" not in kept


def test_openshifts_service_shows_a_watcher_hosts_with_their_cluster_alone(run):
    small = host("master-0", "insufficient", has_min_memory=TOO_SMALL)
    assert run([Moment(cluster("insufficient"), [small])], openshift=True) == 5
    assert run.lines("ERROR")[0] == f"Host master-0 validation has-min-memory failed: {TOO_SMALL[1]}"
    assert not any("cannot be retrieved" in line for line in run.lines())


def test_refused_logs_do_not_hide_the_cause(run):
    small = host("master-0", "insufficient", has_min_memory=TOO_SMALL)
    assert run([Moment(cluster("insufficient"), [small])]) == 5
    assert any("No logs could be downloaded" in line for line in run.lines("WARNING"))


def test_a_missing_host_is_named_at_the_time_out(run):
    moments = [Moment(cluster("insufficient"), [host("master-0", "known")])]
    assert run(moments, names=("master-0", "master-1"), timeout=0.5) == 5
    errors = run.lines("ERROR")
    assert errors[0] == "Host master-1 never registered (1 of 2 expected hosts registered)"
    assert "timed out after 0.5s" in errors[-1]
    assert "waited for the bootstrap's kube API" in errors[-1]
    assert "cluster was insufficient" in errors[-1]


def test_a_mistyped_host_is_named_at_once_and_hosts_are_in_the_inputs_order(run):
    macs = [f"52:54:00:00:00:0{index}" for index in range(3)]
    hosts = [host(name, "known") for name in ("stranger", "b", "a")]
    for seen, mac in zip(hosts, ("52:54:00:00:00:f2", macs[1], macs[0]), strict=True):
        seen["inventory"] = json.dumps({"interfaces": [{"mac_address": mac}]})
    moments = [Moment(cluster("insufficient"), hosts[:2]), Moment(cluster("insufficient"), hosts)]
    assert run(moments, names=("a", "b", "c"), macs=macs, timeout=2) == 5
    lines = [line for line in run.lines("WARNING") if "has not registered yet" in line]
    # Not a, which comes a moment later and differs more.
    assert lines == [
        f"Host c with MAC address {macs[2]} has not registered yet (2 of 3 expected hosts registered); stranger "
        "registered with 52:54:00:00:00:f2, one digit differs: is one of the two mistyped? "
        "(agent-config.yaml: hosts[2])"
    ]
    assert run.lines("ERROR")[-1].index("host a was") < run.lines("ERROR")[-1].index("host b was")


def test_failed_stage_ends_at_once(run):
    failed = host("master-0", "error", "Writing image to disk", "Failed - no space left on device")
    failed["logs_info"] = "completed"
    moments = [Moment(cluster("installing"), [host("master-0", "installing-in-progress", "Installing")]),
               Moment(cluster("error", "Cluster has hosts in error"), [failed])]  # fmt: skip
    assert run(moments, archive=log_archive()) == 5
    assert run.lines("ERROR")[0] == (
        "Host master-0 failed at stage Writing image to disk: Failed - no space left on device"
    )


def test_nobody_answers(run):
    assert run([Moment()], settings=replace(QUICK, unreachable_after=0), timeout=0.5) == 5
    assert "Waiting for cluster install to initialize" in run.lines("INFO")
    assert any(
        "Cannot access Rendezvous Host 127.0.0.1: 127.0.0.1 accepts connections" in line for line in run.lines("INFO")
    )
    assert "waited for the rendezvous service on 127.0.0.1 to come up" in run.lines("ERROR")[-1]


@pytest.mark.parametrize(("looks", "complains"), [(["x", "", "x", ""], False), (["", "x", "y", "y"], True)])
def test_a_complaint_at_two_looks_in_a_row_is_a_warning(run, monkeypatch, looks, complains):
    complaints = iter([*looks, *[""] * 1000])
    monkeypatch.setattr(outside, "complaint", lambda *_: next(complaints))
    assert run([Moment()], settings=replace(QUICK, notice_every=0), timeout=1) == 5
    expected = ["Rendezvous Host 127.0.0.1 says: y"] if complains else []
    assert [line for line in run.lines("WARNING") if " says: " in line] == expected


def test_an_unreachable_hosts_cause_and_remedy_come_first(run, monkeypatch):
    said = f"Images cannot be pulled: DNS server 10.0.0.53 does not answer (asked for r.lab): {'x' * 500}"
    monkeypatch.setattr(outside, "host", lambda *_: f"127.0.0.1 answers SSH, its service is not. It says: {said}")
    assert run([Moment()], settings=replace(QUICK, notice_every=0, unreachable_after=0), timeout=1) == 5
    (line,) = [line for line in run.lines("INFO") if line.startswith("Cannot access")]
    assert line == (
        "Cannot access Rendezvous Host 127.0.0.1: DNS server 10.0.0.53 does not answer: "
        "is it the right one for the hosts, and does it run"
    )


#: Ten looks until the time is up, at a time that a busy machine can keep.
SELDOM = replace(QUICK, interval=0.5, notice_every=0)


@pytest.mark.parametrize(("at_the_end", "tail"), [("", " before: no image"), ("no image", ". It says: no image")])
def test_a_time_out_names_the_hosts_last_complaint_after_it_has_gone(run, monkeypatch, at_the_end, tail):
    looks = iter(["no image", "no image", *[""] * 1000])
    monkeypatch.setattr(outside, "complaint", lambda *_: next(looks))
    sentence = f"its service is not{at_the_end and f'. It says: {at_the_end}'}"
    monkeypatch.setattr(outside, "host", lambda *_: sentence)
    assert run([Moment()], settings=SELDOM, timeout=5) == 5
    assert run.lines("ERROR")[0].startswith("The rendezvous service was never reached: ")
    assert run.lines("ERROR")[0].endswith(tail)


@pytest.mark.parametrize(("looks", "told"), [(["x", "", "x"], True), (["x"], False), (["x", "", "y"], False)])
def test_a_time_out_names_only_a_repeated_complaint(run, monkeypatch, looks, told):
    complaints = iter([*looks, *[""] * 1000])
    monkeypatch.setattr(outside, "complaint", lambda *_: next(complaints))
    monkeypatch.setattr(outside, "host", lambda *_: "its service is not")
    assert run([Moment()], settings=SELDOM, timeout=5) == 5
    assert run.lines("ERROR")[0].endswith(" before: x") == told


def test_cancelled(run):
    assert run([Moment(cluster("cancelled", "by user"), [host("master-0", "cancelled")])]) == 5
    assert run.lines("ERROR")[0] == "Cluster cancelled: by user"


def test_ready_without_progress(run):
    assert run([Moment(cluster("ready"), [host("master-0", "known")])]) == 5
    assert "failed to progress after all hosts available" in run.lines("ERROR")[-1]


def test_preparing_again_and_wrong_boot_order(run):
    moments = [
        Moment(cluster("preparing-for-installation"), [host("master-0", "preparing-failed")]),
        Moment(cluster("ready", "image pull failed"), [host("master-0", "known")]),
        Moment(cluster("installing-pending-user-action"),
               [host("master-0", "installing-pending-user-action", "Rebooting", "boots from the wrong disk")]),
        Moment(kube=DONE),
    ]  # fmt: skip
    assert run(moments) == 0
    assert "Failed to prepare cluster installation, retrying: image pull failed" in run.lines("INFO")
    assert "Host master-0 boots from the wrong disk" in run.lines("WARNING")


@pytest.mark.parametrize(("ca", "token", "text"), [(OTHER_CA, TOKEN, "TLS with"), (SERVICE_CA, "other", "401: token")])
def test_another_images_service_is_told_once(run, ca, token, text):
    assert run([Moment(cluster("ready"), [])], ca=ca, token=token, timeout=0.4) == 5
    lines = [line for line in run.lines("WARNING") if text in line]
    assert len(lines) == 1
    assert "was the host booted from the image in" in lines[0]


def test_service_lost_before_the_reboot(run):
    installing = Moment(
        cluster("installing"), [host("master-0", "installing-in-progress", "Installing")], evaluations=1
    )
    assert run([installing, Moment()], timeout=2) == 5
    assert run.world.index == 1, "the service was never lost: this machine is too slow for the time-out"
    assert sum("cluster bootstrap did not complete" in line for line in run.lines("ERROR")) == 1
    assert "host master-0 was installing-in-progress at stage Installing" in run.lines("ERROR")[-1]


def test_no_state(tmp_path, caplog):
    assert execute("bootstrap-complete", tmp_path) == 1
    assert len(caplog.records) == 1
    assert "cannot read the state" in caplog.records[0].message


def test_interrupt(run, monkeypatch):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("installer.waitfor.bootstrap.time.sleep", interrupt)
    assert run([Moment(cluster("ready"), [])]) == 8
    assert "interrupted" in run.lines("ERROR")[-1]


def installing(stage: str, words: str = "") -> dict[str, Any]:
    """Return a host at this stage, with these words."""
    return host("master-0", "installing-in-progress") | {"progress": {"current_stage": stage, "progress_info": words}}


def test_a_stage_that_fails_again_is_a_warning_at_once(run):
    words = f"{FAILS_AGAIN}Error: r.example/etcd: manifest unknown"
    failing = Moment(cluster("installing"), [installing("Waiting for bootkube", words)], evaluations=3)
    over = Moment(cluster("installing"), [installing("Waiting for bootkube", "etcd is up")])
    assert run([failing, over, failing, Moment(kube=DONE)]) == 0
    line = f"Host master-0 is at stage Waiting for bootkube: {words}"
    # Each time that it begins to, and not at each look.
    assert run.lines("WARNING").count(line) == 2


def test_the_hosts_stages_are_shown_after_a_long_silence(run):
    silent = Moment(cluster("installing"), [installing("Waiting for bootkube", "etcd is up")], evaluations=3)
    on = replace(silent, events=[event("it goes on")], evaluations=1)
    settings = replace(QUICK, unchanged_for=0.1)
    assert run([silent, on, Moment(kube=DONE)], settings=settings) == 0
    line = "Nothing is new for 0.1s: host master-0 is at stage Waiting for bootkube: etcd is up"
    # Once for each silence, of which there may be a second one after the event, and not at each look.
    warnings = run.lines("WARNING")
    assert set(warnings) == {line}
    assert len(warnings) <= 2


def test_no_stages_are_shown_before_the_installation(run):
    insufficient = Moment(cluster("insufficient"), [host("master-0", "discovering")], evaluations=3)
    assert run([insufficient, Moment(kube=DONE)], settings=replace(QUICK, unchanged_for=0.1)) == 0
    assert not any("Nothing is new" in line for line in run.lines())


def test_images_are_read_completely_once_when_no_host_registers(run, monkeypatch):
    asked = []

    def problems(_self, *, whole=False):
        asked.append(whole)
        return ("Hosts cannot pull agent-installer-node-agent: the registry has no such image",)

    monkeypatch.setattr(Bootstrap, "image_problems", problems)
    nobody = Moment(cluster("insufficient"), evaluations=4)
    assert run([nobody, Moment(kube=DONE)]) == 0
    assert [line for line in run.lines("WARNING") if line.startswith("Hosts cannot")] == list(problems(None))
    assert asked[:-1] == [True]
