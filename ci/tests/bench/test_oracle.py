"""`ci/bench/run oracle`: how answers are read, compared and classed, and the page held against what was found."""

import json

import pytest

from ci.bench.oracle import classes
from ci.bench.oracle.answers import Answer, Error, crash, field_errors, message, warnings
from ci.bench.oracle.bench import agreement
from ci.bench.oracle.compare import compare, shape
from ci.bench.oracle.exchange import handed_on
from ci.bench.oracle.ignition import Tally, content, differences, tally
from ci.bench.oracle.inputs import cases, directories
from ci.bench.oracle.inputs.bases import bases, merged
from ci.bench.oracle.inputs.cases import Cases, apply, general
from ci.bench.oracle.inputs.material import Material
from ci.bench.oracle.inputs.values import ABSENT
from ci.bench.oracle.page import PAGE, Sorted, named, problems, sort
from ci.bench.oracle.programs import Edit, Input, Oracle, create_manifests, node0_answers, oracle_home

MATERIAL = Material("certificate\n", "other\n", "key\n")
WRAP = 'failed to fetch Agent Manifests: failed to load asset "Install Config": invalid install-config configuration: '
TAKEN = Answer(0, "", {"a.yaml": "kind: A\nmetadata:\n  name: x\n"})


def _refused(text, code=1):
    return Answer(code, f"level=info msg=x\nlevel=fatal msg={WRAP}{text}\n")


def test_field_errors_are_read_from_a_list_with_their_values():
    text = (
        f'{WRAP}[sshKey: Invalid value: "a, b: Forbidden": no key, platform.baremetal.hosts[0].bmc: Required value, '
        'fips[1].x: Unsupported value: {"b": [1], "a": "]"}: supported values: "x", "y"]'
    )
    assert field_errors(text) == (
        Error("fips[1].x", "Unsupported value", '{"a": "]", "b": [1]}', 'supported values: "x", "y"'),
        Error("platform.baremetal.hosts[0].bmc", "Required value"),
        Error("sshKey", "Invalid value", '"a, b: Forbidden"', "no key"),
    )


@pytest.mark.parametrize(
    ("text", "value", "detail"),
    [
        ('a: Invalid value: "x": why', '"x"', "why"),
        ("a: Invalid value: 10.0.0.0/8: why", "10.0.0.0/8", "why"),
        ("a: Too many: 3: must have at most 2 items", "3", "must have at most 2 items"),
        ("a: Required value: why: so", "", "why: so"),
        ('a: Duplicate value: "x"', '"x"', ""),
    ],
)
def test_one_field_error(text, value, detail):
    (error,) = field_errors(text)
    assert (error.path, error.value, error.detail) == ("a", value, detail)


def test_a_text_without_field_errors_has_none():
    assert field_errors("failed to read: no such file") == ()


def test_warnings_are_those_about_the_input():
    output = (
        "level=warning msg=Found override for release image (x)\nlevel=warning msg=  a is ignored\nlevel=info msg=b\n"
    )
    assert warnings(Answer(0, output)) == {"a is ignored"}


def test_a_crash_is_named_by_the_first_frame_that_is_not_the_runtime():
    text = "panic: runtime error: x [signal SIGSEGV] goroutine 1: github.com/openshift/installer/pkg/a.(*B).C(0x1)"
    assert message(Answer(2, text)) == text
    assert crash(text) == "runtime error: x in pkg/a.(*B).C"
    output = 'time="2026-11-24T22:00:00Z" level=warning msg="x \\"y\\" is deprecated"\n'
    assert message(Answer(2, output + text)) == text
    assert warnings(Answer(2, output + text)) == {'x "y" is deprecated'}
    assert crash("failed") == ""


@pytest.mark.parametrize(
    ("theirs", "ours", "agrees", "differences"),
    [
        (TAKEN, TAKEN, "verdict exit errors outputs warnings all", ()),
        (_refused("a: Forbidden: no"), _refused("a: Forbidden: never"), "verdict exit errors outputs warnings all", ()),
        (TAKEN, _refused('a[2]: Invalid value: "x": no'), "errors outputs warnings",
         ("only node0 refuses: a[]: Invalid value: no",)),
        (_refused("a: Forbidden: no"), TAKEN, "errors outputs warnings",
         ("only openshift-install refuses: a: Forbidden: no",)),
        (_refused("a: Forbidden: no"), _refused("b: Forbidden: no"), "verdict exit outputs warnings",
         ("error of openshift-install only: a: Forbidden: no", "error of node0 only: b: Forbidden: no")),
        (_refused('a: Invalid value: "x": no'), _refused('a: Invalid value: "y": no'), "verdict exit outputs warnings",
         ("value of: a: Invalid value: no",)),
        (_refused('a: Invalid value: "s3cr3t": no'), _refused('a: Invalid value: "<not shown>": no'),
         "verdict exit errors outputs warnings all", ()),
        (_refused("a: Forbidden: no", 3), _refused("a: Forbidden: no"), "verdict errors outputs warnings",
         (f"exit code: 3, node0 1: {shape(WRAP)} a: Forbidden: no",)),
        (Answer(0, "level=warning msg=x 5\n"), Answer(0, ""), "verdict exit errors outputs",
         ("warning of openshift-install only: x #",)),
        (TAKEN, Answer(0, "", {"a.yaml": "kind: A\nmetadata:\n  name: y\n", "b": ""}), "verdict exit errors warnings",
         ("output: a.yaml[].metadata.name", "output of node0 only: b")),
        (TAKEN, Answer(0, "", {"a.yaml": "status: {}\nkind: A\nmetadata:\n  name: x\n  uid: ''\n"}),
         "verdict exit errors outputs warnings all", ()),
    ],
)  # fmt: skip
def test_two_answers_are_compared(theirs, ours, agrees, differences):
    comparison = compare("x", theirs, ours)
    assert comparison.differences == differences
    names = ("verdict", "exit", "errors", "outputs", "warnings", "all")
    assert " ".join(name for name in names if getattr(comparison, name)) == agrees


def test_a_crash_is_one_difference_and_its_exit_code_none():
    comparison = compare("x", Answer(2, "panic: x goroutine 1"), _refused("a: Forbidden: no"))
    assert comparison.differences == ("openshift-install crashes: x in ?",)


def test_a_crash_counts_as_such_where_node0_takes_the_input():
    assert compare("x", Answer(2, "panic: x goroutine 1"), TAKEN).differences == ("openshift-install crashes: x in ?",)


def test_at_another_stage_the_difference_says_for_what():
    network = Answer(1, "level=fatal msg=staticNetwork configuration is not valid: x\n")
    rules = Answer(1, "level=fatal msg=invalid Hosts configuration: hosts[0].interfaces: Required value: why\n")
    assert compare("x", network, rules).differences == (
        "refused at: network documents, node0: hosts' rules: hosts[].interfaces: Required value: why",
    )


def test_a_network_document_that_a_stand_in_took_is_not_comparable():
    network = Answer(1, "level=fatal msg=staticNetwork configuration is not valid: x\n")
    assert not compare("x", TAKEN, network).comparable
    assert compare("x", network, network).comparable
    rows = dict(agreement([compare("x", TAKEN, network), compare("y", TAKEN, TAKEN)]))
    assert rows["verdict"].split()[:3] == ["1", "of", "1"]


def test_ratios_are_over_what_can_agree():
    some = [compare("a", TAKEN, TAKEN), compare("b", _refused("a: Forbidden"), _refused("b: Forbidden")),
            compare("c", TAKEN, _refused("a: Forbidden"))]  # fmt: skip
    rows = {name: figures.split()[:3] for name, figures in agreement(some)}
    assert rows["verdict"] == ["2", "of", "3"]
    assert rows["(path, kind, value) of errors, of those that both refuse"] == ["0", "of", "1"]
    assert rows["outputs, of those that both take"] == ["1", "of", "1"]
    assert rows["all but words"] == ["1", "of", "3"]


@pytest.fixture
def two_classes(monkeypatch):
    monkeypatch.setattr(classes, "PATTERNS", {"one": classes.re.compile("x"), "two": classes.re.compile("y|z")})
    monkeypatch.setattr(classes, "CLASSES", {"one": ("x",), "two": ("y", "z")})
    monkeypatch.setattr("ci.bench.oracle.page.CLASSES", classes.CLASSES)


ROW = "| **{}** | theirs | ours | why |\n"


def test_a_page_that_names_what_was_found_has_no_problem(two_classes):
    by_class = sort({"a": ["x1", "y"], "b": ["z"]})
    assert by_class == Sorted({"one": ["a"], "two": ["a", "b"]}, {})
    assert problems(ROW.format("one") + ROW.format("two"), by_class) == []


def test_missing_and_obsolete_classes_of_the_page_are_reported(two_classes):
    page = ROW.format("one") + ROW.format("three")
    (lacks, gone, nothing, unknown) = problems(page, sort({"a": ["y"], "b": ["new"], "c": ["new"]}))[::-1]
    assert lacks == "two: found in 1 inputs, not on the page"
    assert gone == "three: on the page, and nothing says what belongs to it"
    assert nothing == "one: on the page, and no longer found"
    assert unknown == "in no class, in 2 inputs: new\n    as in b"


def test_with_other_inputs_a_class_may_be_absent(two_classes):
    assert problems(ROW.format("one") + ROW.format("two"), sort({"a": ["x"]}), whole=False) == []
    assert problems(ROW.format("one"), sort({"a": ["y"]}), whole=False) == ["two: found in 1 inputs, not on the page"]


def test_a_reason_is_asked_for(two_classes):
    page = "| **one** | theirs | ours | |\n" + ROW.format("two")
    assert problems(page, sort({"a": ["x", "y"]})) == ["one: named on the page without a reason"]


def test_the_page_names_the_classes_with_reasons():
    page = named(PAGE.read_text())
    assert page.keys() == classes.CLASSES.keys()
    assert all(len(cells) == 3 and all(cells) for cells in page.values())


def test_paths_are_set_and_removed():
    document = {"a": [{"b": 1}]}
    apply(document, "a.0.c.d", [2])
    apply(document, "a.1", "new")
    apply(document, "a.0.b", ABSENT)
    assert document == {"a": [{"c": {"d": [2]}}, "new"]}
    assert general("a.0.b.12.c") == "a.*.b.*.c"


def test_a_seed_makes_the_same_inputs_and_another_makes_others(monkeypatch):
    # Writing YAML takes three quarters of the time, and does not depend on the seed.
    monkeypatch.setattr(cases, "dump", lambda document: json.dumps(document, default=str).encode())
    first, again, other = (Cases(MATERIAL, seed).all() for seed in (1, 1, 2))
    assert [one.files for one in first] == [one.files for one in again]
    assert {one.name for one in other} != {one.name for one in first}
    assert len(first) > 2000
    assert [one.name.partition(":")[0] for one in first if one.base] == list(bases(""))


def test_directories_of_manifests_and_second_runs_follow_the_seed_and_valid_ones_are_accepted(tmp_path):
    first, again, other = (directories.inputs(MATERIAL.certificate, seed) for seed in (1, 1, 2))
    assert first == again
    assert {one.name for one in other} != {one.name for one in first}
    assert {one.name.partition(" ")[0].strip(":") for one in first} == {"manifests", "again"}
    by_name = {one.name: one for one in first}
    whole = by_name["manifests: as they are"]
    later = by_name["again: agent-config comes later"]
    taken, twice = node0_answers([whole, later])
    assert (taken.code, twice.code) == (0, 0)
    assert taken.files.keys() == {*whole.files, "mirror/registries.conf"}
    assert "192.168.111.80" in twice.files["cluster-manifests/nmstateconfig.yaml"]
    assert warnings(twice) == {
        f"Discarding the {name} Config that was provided in the target directory because its dependencies are dirty "
        "and it needs to be regenerated"
        for name in ("InfraEnv", "AgentClusterInstall")
    }


def test_edits_change_write_and_remove(tmp_path):
    one = Input("x", {"a": b"1 2", "b/c": b"3"}, again=(Edit("a", b"2", b"4"), Edit("b/c"), Edit("d/e", new=b"5")))
    one.put(tmp_path)
    one.edit(tmp_path)
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == {
        "a": b"1 4",
        "d/e": b"5",
    }


def test_a_merge_leaves_its_base_alone_and_replaces_platforms():
    base = {"platform": {"none": {}}, "a": {"b": 1}}
    assert merged(base, {"platform": {"x": {}}, "a": {"c": 2}}) == {"platform": {"x": {}}, "a": {"b": 1, "c": 2}}
    assert base == {"platform": {"none": {}}, "a": {"b": 1}}


def test_without_an_openshift_install_it_says_what_belongs_there(tmp_path, monkeypatch):
    monkeypatch.setenv("ORACLE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as error:
        oracle_home()
    assert str(error.value).startswith(f"{tmp_path}/openshift-install: no such program. ")
    assert "github" not in str(error.value)


def test_an_answer_is_kept_and_asked_for_once(tmp_path):
    (tmp_path / "installer/data/data").mkdir(parents=True)
    program = tmp_path / "openshift-install"
    program.write_text(f'#!/bin/sh\necho asked >> {tmp_path}/log\necho "level=fatal msg=$5" >&2\ncat "$5/a"\nexit 3\n')
    program.chmod(0o755)
    one = Input("x", {"a": b"1"})
    with Oracle(tmp_path, tmp_path / "kept") as oracle:
        (first,) = oracle.answers([one])
    with Oracle(tmp_path, tmp_path / "kept") as oracle:
        assert oracle.answers([Input("y", {"a": b"1"}), Input("z", {"a": b"2"})])[0] == first
    assert first == Answer(3, "level=fatal msg=DIR\n", {"a": "1"})
    assert (tmp_path / "log").read_text().count("asked") == 2


def test_node0_answers_as_its_command_does():
    documents = bases("")["sno"]
    good = {
        name: json.dumps(text).encode()
        for name, text in zip(("install-config.yaml", "agent-config.yaml"), documents, strict=True)
    }
    bad = {**good, "install-config.yaml": json.dumps({**documents[0], "x": 1}).encode()}
    taken, refused = node0_answers([Input("good", good), Input("bad", bad)], create_manifests)
    assert taken.code == 0
    assert "cluster-manifests/infraenv.yaml" in taken.files
    assert (refused.code, message(refused).endswith(': unknown field "x"')) == (3, True)


def test_ignition_configs_are_held_against_each_other():
    files, units = Tally(), Tally()
    one = {"path": "/a", "mode": 0o644, "contents": {"source": "data:;base64,eA=="}}
    other = {"path": "/a", "mode": 0o600, "contents": {"source": "data:,x"}}
    unit = {"name": "a.service", "enabled": True, "contents": "x"}
    tally(
        files,
        units,
        {"storage": {"files": [one, {"path": "/theirs"}]}, "systemd": {"units": [unit]}},
        {"storage": {"files": [other]}, "systemd": {"units": [{**unit, "contents": "y"}, {"name": "b.service"}]}},
    )
    assert (files.only_theirs, files.mode["/a"], files.content["/a"]) == ({"/theirs": 1}, 0, 1)
    assert (units.only_ours, units.mode["a.service"], units.content["a.service"]) == ({"b.service": 1}, 1, 0)
    assert differences(files, units) == [
        "ISO: file of openshift-install only: /theirs",
        "ISO: mode: /a",
        "ISO: unit of node0 only: b.service",
    ]
    assert content({"append": [{"source": "data:,x"}, {"source": "data:,%79"}]}) == b"xy"


def test_only_generated_manifests_are_handed_on():
    one = Input("x", {"install-config.yaml": b"a", "agent-config.yaml": b"b"})
    answer = Answer(0, "", {"cluster-manifests/a.yaml": "c", "mirror/ca-bundle.crt": "d", "auth/kubeconfig": "e"})
    assert handed_on(one, answer).files == {"cluster-manifests/a.yaml": b"c", "mirror/ca-bundle.crt": b"d"}
