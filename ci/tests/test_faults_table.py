"""The table of faults: its rows are valid, what they name exists, and where their causes are looked for."""

import io
import re
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest

from installer.assisted.enums import ClusterStatus, HostStatus, Stage
from lab.faults import DiskErrors, DiskSlow, Freeze, Kill
from lab.faults.machines import Process
from scenarios.catalogue.clusterfaults import ROWS as CLUSTER_ROWS
from scenarios.catalogue.clusterfaults import ClusterFault
from scenarios.catalogue.errors import TableError
from scenarios.catalogue.faulty import ROWS, Outcome, load
from scenarios.catalogue.ids import topology_of
from scenarios.testing import surfaces
from scenarios.testing.surfaces import files_in

GOOD = """
- name: a_b
  scenario: sno-ipv4-static-uefi
  faults: [{type: Outage, service: registry}]
  begin: {seconds: 0}
  why: because
  completes: {}
"""


def test_scenarios_and_hosts_that_rows_name_exist():
    for row in ROWS:
        names = {node.name for node in topology_of(row.id).nodes}
        nodes = {value for fault in row.faults for name in ("node", "of") if (value := getattr(fault, name, ""))}
        nodes |= {name for fault in row.faults for name in getattr(fault, "nodes", ())}
        hosts = {moment.host for moment in (row.begin, row.end) if moment is not None and moment.host}
        named = {row.told.host} if row.told and row.told.host else set()
        assert nodes | hosts | named <= names, row.name


def test_nics_that_faults_name_exist_on_their_nodes():
    named = 0
    for row in ROWS:
        for node in topology_of(row.id).nodes:
            nics = {fault.nic for fault in row.faults if getattr(fault, "nic", "") and fault.node == node.name}
            named += len(nics)
            assert nics <= {nic.name for nic in node.all_nics}, row.name
    assert named, "no row has one cable of several fail"


def test_only_disks_that_a_row_has_fail_are_made_to_fail():
    for row in ROWS:
        failing = {fault.node for fault in row.faults if isinstance(fault, DiskErrors | DiskSlow)}
        for node in topology_of(row.id).nodes:
            assert {disk.can_fail for disk in node.all_disks} == {node.name in failing}, row.name


def test_each_process_of_a_host_is_killed_and_stopped_or_the_page_says_why_not():
    page = (Path(__file__).parents[2] / "docs/faults.md").read_text()
    section = page.partition("\n## Each process")[2].partition("\n## ")[0]
    table = re.findall(r"^\| `([\w-]+)` \| ([^|]*) \| ([^|]*) \|$", section, re.MULTILINE)
    assert [process for process, _, _ in table] == list(get_args(Process))
    for process, *cells in table:
        for kind, cell in zip((Kill, Freeze), cells, strict=True):
            rows = {
                row.name for row in ROWS for fault in row.faults if isinstance(fault, kind) and fault.process == process
            }
            # A cell without rows has to give a reason.
            assert set(re.findall(r"`(\w+)`", cell)) == rows if rows else re.match(r"none: \w+ \w+", cell), (
                process,
                kind,
            )


def test_three_rows_are_in_the_gate():
    # Two that complete, with an early and a late fault, and one with an error.
    assert sum(row.gate for row in ROWS) == 3


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("name: a_b", "name: A-b", "want words of lower-case letters"),
        ("type: Outage", "type: Dance", "Invalid value 'Dance'"),
        ("service: registry", "sorvice: registry", "unknown field `sorvice`"),
        ("begin: {seconds: 0}", "begin: {}", "must be one of stage, event"),
        ("completes: {}", "completes: {}\n  told: {cause: x}", "want one of completes, told and void"),
        ("completes: {}", "gate: true", "want one of completes, told and void"),
        ("completes: {}", "completes: {}\n  void: registry", "want one of completes, told and void"),
        ("completes: {}", "void: registry", "void: no fault ends registry"),
        ("completes: {}", "told: {cause: '('}", "cause: missing )"),
        ("completes: {}", "told: {cause: ''}", "cause '': any line has it"),
        ("completes: {}", "told: {cause: 'x*|y'}", "any line has it"),
        ("completes: {}", "told: {cause: x, page: '('}", "t.yaml: a_b: page: missing )"),
        ("completes: {}", "told: {cause: x, console: '['}", "t.yaml: a_b: console: unterminated character set"),
        ("completes: {}", "told: {cause: x, console: ''}", "t.yaml: a_b: console '': any line has it"),
        ("completes: {}", "told: {cause: x, archive: 'y?'}", "t.yaml: a_b: archive 'y?': any line has it"),
        ("completes: {}", "told: {cause: x, archives: y}", "unknown field `archives`"),
        ("completes: {}", "told: {cause: x, page: 7}", "Expected `str | null`, got `int`"),
        ("completes: {}", "told: {cause: x, page: z}\n  lanes: [swarm]", "page: only labs have it"),
        ("completes: {}", "told: {cause: x, code: 0}", "Expected `int` >= 1"),
        ("completes: {}", "told: {cause: x, minutes: 0}", "Expected `int` >= 1"),
        ("completes: {}", "told: {cause: x, minutes: 100000}", "Expected `int` <= 240"),
        ("completes: {}", "completes: {factor: 0}", "Expected `float` >= 1"),
        ("completes: {}", "completes: {factor: .inf}", "Expected `float` <= 100"),
        ("completes: {}", "completes: {factor: .nan}", "Expected `float`"),
        ("completes: {}", "completes: {}\n  lanes: []", "lanes: want at least one, each once"),
        ("completes: {}", "completes: {}\n  lanes: [vm, vm]", "lanes: want at least one, each once"),
        ("completes: {}", "completes: {}\n  lanes: [moon]", "Invalid enum value 'moon'"),
        ("completes: {}", "completes: {}\n  bmc: moon", "Invalid enum value 'moon'"),
        ("why: because", "why: ' '", "why: says nothing"),
        (
            "registry}]\n  begin: {seconds: 0}\n  why: because\n  completes: {}",
            "registry}, {type: Crash, service: http}]\n  begin: {seconds: 0}\n  why: because\n  void: http",
            "void: another fault would go unseen",
        ),
        ("{seconds: 0}", "{seconds: .nan}", "seconds: want 0 to"),
        ("{seconds: 0}", "{seconds: .inf}", "seconds: want 0 to"),
        ("{seconds: 0}", "{seconds: -1}", "seconds: want 0 to"),
        ("{seconds: 0}", "{stage: x, host: z, percent: 101}", "percent: want 0 to 100"),
        ("{seconds: 0}", "{stage: x, host: z, percent: -1}", "percent: want 0 to 100"),
        ("{type: Outage, service: registry}", "{type: Loss, percent: .nan}", "Expected `float`"),
        ("{type: Outage, service: registry}", "{type: Loss, percent: 0}", "Expected `float` >= 0.1"),
        ("{type: Outage, service: registry}", "{type: Partition, nodes: []}", "nodes: want at least one, each once"),
    ],
)
def test_an_invalid_row_is_refused_by_its_field(old, new, rule):
    assert len(load({"t": GOOD})) == 1
    with pytest.raises(TableError) as caught:
        load({"t.yaml": GOOD.replace(old, new)})
    assert rule in str(caught.value)
    assert str(caught.value).startswith("t.yaml: ")


@pytest.mark.parametrize(
    ("text", "rule"),
    [("a: b", "want a list of rows"), ("7", "want a list of rows"), ("text", "want a list of rows"),
     ("- {", "t.yaml: "), ("- &a [*a]", "t.yaml: "), ("- 1", "Expected `object`"), ("- name: 1", "name")],
)  # fmt: skip
def test_files_that_are_no_table_are_refused(text, rule):
    with pytest.raises(TableError) as caught:
        load({"t.yaml": text})
    assert rule in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_stages_and_statuses_of_moments_exist():
    stages, statuses = set(Stage), {*ClusterStatus, *HostStatus}
    for row in ROWS:
        for moment in (row.begin, row.end):
            if moment is not None:
                assert moment.stage in stages | {""}, row.name
                assert moment.status in statuses | {""}, row.name


def test_all_problems_are_reported_at_once():
    with pytest.raises(TableError) as caught:
        load({"t": GOOD, "u": GOOD + GOOD.replace("begin: {seconds: 0}", "begin: {}").replace("a_b", "c")})
    assert len(str(caught.value).splitlines()) == 2
    assert "u: sno-ipv4-static-uefi-a_b: is there twice" in str(caught.value)


def test_the_error_lines_of_a_waiting_command():
    lines = [
        'level=info msg="fine"',
        'level=error msg="host \\"a\\" is gone"',
        "level=fatal msg=short of it",
        "level=debug msg=x",
    ]
    output = "\n".join(lines)
    assert Outcome(5, output, 1.0).errors == ['host "a" is gone', "short of it"]


@pytest.mark.parametrize(
    ("lanes", "machine", "minutes"),
    [("[container, vm]", "container", 4), ("[container, vm]", "vm", 12), ("[vm]\n  vm: because", "vm", 4)],
)
def test_vms_are_given_longer_where_containers_run_the_same_row(lanes, machine, minutes):
    text = GOOD.replace("completes: {}", f"lanes: {lanes}\n  told: {{cause: gone, minutes: 4}}")
    assert load({"t.yaml": text})[0].told_minutes(machine) == minutes
    assert load({"t.yaml": GOOD})[0].told_minutes(machine) == 0


def packed(files: dict[str, bytes], mode: str) -> bytes:
    """Return a tar of files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return whole.getvalue()


def test_a_cause_is_looked_for_in_the_archives_of_an_archive():
    host = packed({"journal.logs": b"no space left on device", "empty.txt": b""}, "w:gz")
    whole = packed({"hosts.json": b"[]", "ostest/host_1.tar.gz": host}, "w")
    assert dict(files_in("cluster-logs.tar", whole)) == {
        "hosts.json": b"[]",
        "journal.logs": b"no space left on device",
        "empty.txt": b"",
    }
    assert dict(files_in("events.json", b"{}")) == {"events.json": b"{}"}


def test_a_row_may_ask_for_its_cause_on_page_and_console_and_in_the_archive():
    text = GOOD.replace("completes: {}", "told: {cause: gone, page: lost, archive: died}")
    [row] = load({"t.yaml": text})
    assert row.told is not None
    assert row.told.elsewhere == {"page": "lost", "archive": "died"}


def test_a_console_without_the_cause_is_reported():
    console = SimpleNamespace(text=lambda: "master-0 login: Images cannot be pulled: unauthorized")
    deployment = SimpleNamespace(lab=SimpleNamespace(nodes={"master-0": SimpleNamespace(console=console)}))
    assert surfaces.console_lacks(deployment, "master-0", "pulled: .*unauthorized") == ""
    assert surfaces.console_lacks(deployment, "master-0", "expired").startswith(
        "the console of master-0 does not say 'expired': master-0 login"
    )


def test_agent_gather_runs_only_for_causes_that_wait_for_has_not_kept(tmp_path):
    asked = []

    def agent(*words, timeout):
        asked.append(words[0])
        files = {"top/openshift_install.log": b"expired", "top/hosts/192.0.2.1/journal.log": b"manifest unknown"}
        (tmp_path / "gathered.tar.gz").write_bytes(packed(files, "w:gz"))
        return subprocess.CompletedProcess(words, 0, "", "")

    lab = SimpleNamespace(layout=SimpleNamespace(root=tmp_path), ssh_key="key", phase=lambda name: io.BytesIO())
    deployment = SimpleNamespace(directory=tmp_path / "cluster", lab=lab, agent=agent)
    (tmp_path / "cluster/logs").mkdir(parents=True)
    (tmp_path / "cluster/logs/hosts.json").write_text("[is silent]")
    assert surfaces.archive_lacks(deployment, "is silent") == ""
    assert asked == []
    assert surfaces.archive_lacks(deployment, "manifest unknown") == ""
    # A line that wait-for itself has logged does not count.
    assert surfaces.archive_lacks(deployment, "expired").startswith("'expired' is in none of ['hosts.json'] and")
    assert asked == ["gather", "gather"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"break": "true", "mend": "true"}, "one of apply and break"),
        ({"apply": [], "break": "true"}, "break and mend come together"),
        ({"says": {"object": "pod/a", "message": "a"}}, "one of condition and event"),
        ({"says": {"object": "pod/a", "condition": "Ready", "message": "a"}}, "want TYPE=True or TYPE=False"),
        ({"says": {"object": "pod/a", "event": "Failed", "message": ".*"}}, "any message has it"),
    ],
)
def test_a_row_for_an_installed_cluster_that_says_nothing_is_refused(change, problem):
    row = {"name": "a", "why": "b", "apply": [{}], "says": {"object": "pod/a", "event": "Failed", "message": "a"}}
    assert msgspec.convert(row, ClusterFault).apply == ({},)
    with pytest.raises(msgspec.ValidationError, match=problem):
        msgspec.convert(row | change, ClusterFault)


def test_only_placeholders_of_a_row_are_filled():
    row = next(row for row in CLUSTER_ROWS if row.name == "a_full_disk").filled(node="m2")
    assert row.says.object == "node/m2"
    assert "$((free - 16384))K" in row.do
    twice = next(row for row in CLUSTER_ROWS if row.name == "a_pod_network_taken_twice").filled(podCIDR="10.1.0.0/23")
    assert twice.apply[0]["spec"]["podCIDRs"] == ["10.1.0.0/23"]
