"""Labels of red runs, and clusters of failures."""

import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.informer import triage
from ci.informer.arithmetic.flakes import Outcome
from ci.informer.history.model import Attempt, Run
from ci.informer.history.store import History
from ci.informer.judging import clusters
from ci.informer.judging.clusters import normalised
from lab.errors import SymptomsError
from lab.evidence import symptoms
from lab.evidence.symptoms import diagnose

SYMPTOMS = symptoms.read()


def red(history, message, key="k", day=1, *, void="", job="sno", **evidence):
    attempts = [Attempt("t", Outcome.FAILED, message=message)]
    began = f"2026-11-{day:02}T00:00:00Z"
    [number] = history.add([Run(job, "p", key, began, seconds=1.0, attempts=attempts, evidence=evidence, void=void)])
    return number


@pytest.mark.parametrize(
    ("place", "line", "label", "name"),
    [
        ("console", "[12.3] Out of memory: Killed process 812 (etcd)", "product", "guest-out-of-memory"),
        ("lab", "Out of memory: Killed process 812 (qemu-system-x86)", "host", "host-out-of-memory"),
        ("message", "OSError: [Errno 28] No space left on device", "host", "host-disk-full"),
        ("console", "watchdog: BUG: soft lockup - CPU#1 stuck for 23s!", "host", "host-starved"),
        ("journal", "kubelet: unable to create inotify: too many open files", "host", "host-inotify-limit"),
        ("journal", "failed to create fsnotify watcher: too many open files", "host", "host-inotify-limit"),
        ("lab", "dnsmasq ended with exit code 1 at 12:00:03", "lab", "lab-daemon-ended"),
        ("message", "lab x itself failed: registry was killed by SIGKILL at 12:00:03", "lab", "lab-daemon-ended"),
        ("message", "Redfish GET /redfish/v1 timed out", "lab", "lab-bmc"),
        ("event", "pinging container registry r:5000: dial tcp: connection refused", "lab", "lab-registry"),
        ("console", "Kernel panic - not syncing: VFS", "product", "kernel-trouble"),
        (
            "console",
            "assisted-service.service ended by itself (exited 134, restarts before: 0)",
            "product",
            "service-crashed",
        ),
        ("event", "Failed to pull image: manifest unknown", "product", "image-missing"),
        ("wait-for", "unauthorized: authentication required", "product", "pull-secret"),
        ("wait-for", "Cluster operator etcd Degraded is True with X: y", "product", "operator-not-available"),
        ("wait-for", "level=error msg=Bootstrap failed to complete", "product", "bootstrap-failed"),
        (
            "wait-for",
            "level=error msg=master-0: The installer failed: the installer ended with code 137: INFO stage x",
            "product",
            "orchestrator-ended",
        ),
        ("message", "E   AssertionError: 2 == 3", "product", "assertion"),
        ("message", "TimeoutError: the API did not answer", "product", "timed-out"),
        ("message", "wait-for bootstrap-complete did not end", "lab", "ended-from-outside"),
    ],
)
def test_a_symptom_labels_a_run(place, line, label, name):
    diagnosis = diagnose({place: f"before\n{line}\nafter"}, SYMPTOMS)
    assert diagnosis.label == label
    assert diagnosis.advice
    assert (diagnosis.shown[0].symptom.name, diagnosis.shown[0].place, diagnosis.shown[0].line) == (name, place, line)


def test_what_wait_for_says_of_each_try_is_no_symptom():
    diagnosis = diagnose({"wait-for": "level=debug msg=kube API: timed out"}, SYMPTOMS)
    assert not diagnosis.shown


def test_a_symptom_names_the_component():
    line = "level=error msg=Cluster operator authentication Available is False with NoEndpoints: none"
    diagnosis = diagnose({"wait-for": line, "message": "E   AssertionError"}, SYMPTOMS)
    assert (diagnosis.label, diagnosis.component) == ("product", "authentication")
    ended = {"lab": "dnsmasq ended by itself at 12:00:03", "wait-for": line}
    assert diagnose(ended, SYMPTOMS, invalid=True).component == "dnsmasq"


@pytest.mark.parametrize(
    ("line", "component"),
    [
        (
            "Nov 25 02:50:40.113138 master-0 start-agent.sh[3234]: Error: initializing source"
            " docker://r.example/x@sha256:29: reading manifest sha256:29 in r.example/x: manifest unknown",
            "agent",
        ),
        ("Nov 25 02:50:40 m podman[3]: Error: reading manifest sha256:29 in r.example/x: manifest unknown", ""),
        ("Nov 25 02:50:40 m kubelet[3]: E1125 pod_workers.go:918] ErrImagePull: not found", ""),
    ],
)
def test_the_component_that_misses_an_image_is_named(line, component):
    diagnosis = diagnose({"journal": line}, SYMPTOMS)
    assert (diagnosis.shown[0].symptom.name, diagnosis.component) == ("image-missing", component)


@given(st.booleans(), st.dictionaries(st.sampled_from(symptoms.PLACES), st.text()))
def test_every_red_run_has_a_label_and_advice(invalid, evidence):
    diagnosis = diagnose(evidence, SYMPTOMS, invalid=invalid)
    assert diagnosis.label in symptoms.LABELS
    assert diagnosis.advice
    assert not invalid or diagnosis.label != "product"


@pytest.mark.parametrize(
    ("why", "label"),
    [
        ("pytest ended with 1 and left no artefacts", "lab"),
        ("pytest ended with -9 although no test failed", "lab"),
        ("not done after 60 s", "lab"),
        ("it ended before its first phase", "lab"),
        ("the 4 hosts that it ran on were lost, one after another", "host"),
    ],
)
def test_what_the_engine_says_of_invalid_runs_has_a_symptom(why, label):
    diagnosis = diagnose({"message": f"{why}\n"}, symptoms.read(), invalid=True)
    assert diagnosis.label == label
    assert diagnosis.shown
    assert "lab-failed.txt" not in diagnosis.advice  # there is none where nothing came of a run


def test_old_runs_are_labelled_again_when_the_symptoms_change(history, tmp_path):
    number = red(history, "the flux capacitor melted")
    assert triage.label(history, SYMPTOMS) == 1
    assert (history.run(number).label, history.run(number).advice) == ("product", symptoms.UNKNOWN)
    assert triage.label(history, SYMPTOMS) == 0
    (tmp_path / "s.yaml").write_text(
        "- {name: flux, where: [message], match: flux capacitor, label: host, advice: Cool it.}"
    )
    assert triage.label(history, symptoms.read(tmp_path / "s.yaml")) == 1
    assert (history.run(number).label, history.run(number).advice) == ("host", "Cool it.")
    assert triage.shown(history, number) == [("flux", "message", "the flux capacitor melted")]


def test_green_runs_are_not_labelled(history):
    history.add([Run("sno", "p", "green", "2026-11-01T00:00:00Z", seconds=1.0)])
    assert triage.label(history, SYMPTOMS) == 0
    assert history.runs()[0].label == ""


def good(old="", new=""):
    return "- {" + "name: a, where: [message], match: x, label: lab, advice: b".replace(old, new) + "}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a: b", "must be a list"),
        ("[", "s.yaml: line 1: did not find expected node content"),
        ("- {name: a}", "[0]: must have exactly the fields advice, label, match, name, where"),
        (good("label: lab", "label: moon"), "[0].label: 'moon': must be one of product, lab, host"),
        (good("match: x", "match: '('"), "[0].match: '(': missing )"),
        (good("[message]", "[moon]"), "[0].where: ['moon']: must be some of"),
        (good("name: a", "name: 1"), "[0].name: 1: must be a text"),
        (f"{good()}\n{good()}", "name: 'a': occurs twice"),
    ],
)  # fmt: skip
def test_bad_symptoms_are_reported_in_one_line(tmp_path, text, rule):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SymptomsError) as caught:
        symptoms.read(tmp_path / "s.yaml")
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("at 2026-11-23T22:00:00.123Z host 192.168.111.20:22623 failed", "at time host address failed"),
        ("host 52:54:00:ab:cd:ef of 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "host mac of uuid"),
        ("after 1801.5 s in /tmp/x-12/run.log", "after n s in path"),
        ("image sha256:0123456789abcdef not found", "image digest not found"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(text, wanted):
    assert normalised(text) == wanted


@given(st.text())
def test_normalising_twice_changes_nothing_more(text):
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(), st.text())
def test_being_the_same_failure_is_symmetric(first, other):
    assert clusters.same(first, other) == clusters.same(other, first)
    assert clusters.same(first, first)


LONG = "the cluster operator authentication is not available because its route has no endpoints at port 8443"


def test_failures_that_differ_a_little_are_one_cluster(history):
    red(history, LONG, "a", 1)
    red(history, LONG.replace("8443", "6443"), "b", 2, job="compact")
    red(history, LONG.replace("route", "routes"), "c", 3)
    red(history, "the disk was not written: it is too small for the image", "d", 3)
    assert clusters.assign(history) == 4
    clusters_seen = clusters.listed(history, history.runs()[0].day)
    assert [(cluster.runs, cluster.jobs) for cluster in clusters_seen] == [(3, 2), (1, 1)]
    assert (str(clusters_seen[0].first_seen), str(clusters_seen[0].last_seen)) == ("2026-11-01", "2026-11-03")
    assert clusters.assign(history) == 0


def test_a_failure_seen_again_within_two_weeks_is_the_same(history):
    red(history, LONG, "a", 1)
    red(history, LONG.replace("route", "routes"), "b", 15)
    clusters.assign(history)
    assert len({row.cluster for row in history.runs()}) == 1


@pytest.mark.parametrize(("others", "alike"), [(9, True), (10, False), (11, False)])
def test_less_than_a_tenth_of_the_characters_apart_is_the_same_failure(others, alike):
    assert clusters.same("a" * 100, "b" * others + "a" * (100 - others)) is alike


def test_after_two_weeks_a_failure_begins_a_new_cluster(history):
    red(history, LONG, "a", 1)
    red(history, LONG.replace("route", "routes"), "b", 16)
    red(history, LONG, "c", 17)
    clusters.assign(history)
    first, other, back = (row.cluster for row in history.runs())
    assert first != other
    assert back == first, "the same text has the same id, however long ago"


def test_ids_are_the_same_in_another_history(tmp_path):
    names = []
    for place in ("one", "other"):
        with History(tmp_path / place) as history:
            red(history, LONG, place)
            clusters.assign(history)
            names.append(history.runs()[0].cluster)
    assert names[0] == names[1] == clusters.id_of(normalised(LONG))


@pytest.mark.parametrize(
    ("match", "rule"),
    [("a{99999999999}", "the repetition number is too large"), ("(" * 3000 + ")" * 3000, "recursion")],
)
def test_expressions_that_are_too_large_are_reported(tmp_path, match, rule):
    (tmp_path / "s.yaml").write_text(good("match: x", f"match: '{match}'"))
    with pytest.raises(SymptomsError, match=rule):
        symptoms.read(tmp_path / "s.yaml")


def test_an_expression_that_takes_for_ever_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(symptoms, "LONGEST", 0.1)
    (tmp_path / "s.yaml").write_text(good("match: x", "match: '(a+)+$'"))
    with pytest.raises(SymptomsError, match=r"symptoms: a: match: .*: takes more than .* make it simpler"):
        diagnose({"message": f"{'a' * 60}!"}, symptoms.read(tmp_path / "s.yaml"))


@pytest.mark.parametrize(
    "text", ["host failed ", "Host x timed out ", " a[1]: ", "waiting on ", "a", "Redfish InsertMedia "]
)
def test_no_line_takes_long_to_be_searched(text):
    """`Host ... failed ... stage` took 0.8 s of a line that says nothing else; a run's texts have hundreds of them."""
    lines = "\n".join([(text * 4000)[:4000]] * 2)
    took = timeit.repeat(
        lambda: diagnose({"console": lines, "message": lines}, SYMPTOMS),
        timer=time.process_time,
        number=1,
        repeat=3,
    )
    assert min(took) < 0.1


def test_two_who_find_the_same_failure_begin_one_cluster(tmp_path):
    """Two collectors write their red runs at the same time."""
    paths = [tmp_path / "h.db"] * 4
    for number, path in enumerate(paths):
        with History(path) as history:
            red(history, f"{LONG} and more" if number % 2 else LONG, f"k{number}")
    ready = threading.Barrier(len(paths))

    def assigned(path):
        with History(path) as history:
            ready.wait(30)
            return clusters.assign(history)

    with ThreadPoolExecutor(len(paths)) as threads:
        assert sum(threads.map(assigned, paths)) == len(paths)


def test_older_runs_may_come_after_newer_ones(history):
    red(history, LONG, "new", 20)
    clusters.assign(history)
    red(history, LONG.replace("route", "routes"), "old", 10)
    red(history, LONG.replace("route", "router"), "oldest", 1)
    clusters.assign(history)
    [first] = clusters.listed(history, history.runs()[1].day)
    assert (first.runs, str(first.first_seen), str(first.last_seen)) == (2, "2026-11-10", "2026-11-20")
    assert history.runs()[0].cluster != first.id, "two weeks count in both directions"
