"""`ci/bench/run oracle`: how answers are read, compared and classed, and what the installers are asked."""

import json
import re
from pathlib import Path

import pytest

from ci.bench.oracle import comparison
from ci.bench.oracle.answers import Answer, Error, crash, field_errors, message, warnings
from ci.bench.oracle.classes import CLASSES, sort
from ci.bench.oracle.compare import compare, shape
from ci.bench.oracle.comparison import agreement
from ci.bench.oracle.inputs import cases
from ci.bench.oracle.inputs.bases import bases, merged
from ci.bench.oracle.inputs.cases import Cases, apply, general, walk
from ci.bench.oracle.inputs.values import ABSENT, VALUES, values_of
from ci.bench.oracle.programs import NODE0, Input, installers

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/differences.md"
PEM = ("certificate\n", "other\n", "key\n")
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
    ("theirs", "ours", "differences"),
    [
        (TAKEN, TAKEN, ()),
        (_refused("a: Forbidden: no"), _refused("a: Forbidden: never"), ()),
        (TAKEN, _refused('a[2]: Invalid value: "x": no'), ("only node0 refuses: a[]: Invalid value: no",)),
        (_refused("a: Forbidden: no"), TAKEN, ("only openshift-install refuses: a: Forbidden: no",)),
        (_refused("a: Forbidden: no"), _refused("b: Forbidden: no"),
         ("error of openshift-install only: a: Forbidden: no", "error of node0 only: b: Forbidden: no")),
        (_refused('a: Invalid value: "x": no'), _refused('a: Invalid value: "y": no'),
         ("value of: a: Invalid value: no",)),
        (_refused('a: Invalid value: "s3cr3t": no'), _refused('a: Invalid value: "<not shown>": no'), ()),
        (_refused("a: Forbidden: no", 3), _refused("a: Forbidden: no"),
         (f"exit code: 3, node0 1: {shape(WRAP)} a: Forbidden: no",)),
        (Answer(0, "level=warning msg=x 5\n"), Answer(0, ""), ("warning of openshift-install only: x #",)),
        (TAKEN, Answer(0, "", {"a.yaml": "kind: A\nmetadata:\n  name: y\n", "b": ""}),
         ("output: a.yaml[].metadata.name", "output of node0 only: b")),
        (TAKEN, Answer(0, "", {"a.yaml": "status: {}\nkind: A\nmetadata:\n  name: x\n  uid: ''\n"}), ()),
    ],
)  # fmt: skip
def test_two_answers_are_compared(theirs, ours, differences):
    assert compare("x", theirs, ours).differences == differences


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
    warned = Answer(0, "level=warning msg=x\n")
    forbidden, other = _refused("a: Forbidden"), _refused("b: Forbidden")
    pairs = [(TAKEN, TAKEN), (forbidden, other), (TAKEN, forbidden), (TAKEN, warned)]
    some = [compare("x", theirs, ours) for theirs, ours in pairs]
    rows = {name: figures.split()[:3] for name, figures in agreement(some)}
    assert rows["verdict"] == rows["exit code"] == ["3", "of", "4"]
    assert rows["(path, kind, value) of errors, of those that both refuse"] == ["0", "of", "1"]
    assert rows["outputs, of those that both take"] == ["1", "of", "2"]
    assert rows["warnings"] == ["2", "of", "4"]
    assert rows["all but words"] == ["1", "of", "4"]


def test_differences_are_sorted_by_class():
    label = "only node0 refuses: baseDomain: Invalid value: each label"
    found = sort({"a": [label, "new"], "b": [label]})
    assert found["dns-labels"] == {label: ["a", "b"]}
    assert found[""] == {"new": ["a"]}
    assert found.keys() == {"", *CLASSES}


def test_the_page_names_the_classes_with_reasons():
    rows = re.findall(r"^\| \*\*([a-z0-9-]+)\*\* \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(CLASSES)
    assert all(len(cells := row.split("|")) == 3 and all(map(str.strip, cells)) for _, row in rows)


def test_paths_are_set_and_removed():
    document = {"a": [{"b": 1}]}
    apply(document, "a.0.c.d", [2])
    apply(document, "a.1", "new")
    apply(document, "a.0.b", ABSENT)
    assert document == {"a": [{"c": {"d": [2]}}, "new"]}
    assert general("a.0.b.12.c") == "a.*.b.*.c"


def test_a_fields_values_are_those_of_the_longest_end_of_its_path():
    assert values_of("platform.baremetal.hosts.*.bmc.address") is VALUES["bmc.address credentials.*.address"]
    assert values_of("platform.nutanix.prismCentral.endpoint.address") is VALUES["server endpoint.address"]
    assert values_of("address") == []


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """Provide the manifests that node0 makes of the compact base."""
    with installers(NODE0) as (ask,):
        (answer,) = ask([case for case in Cases(PEM, 1, {}).bases if case.name.startswith("compact:")])
    assert answer.code == 0
    return answer.files


def test_a_seed_makes_the_same_inputs_and_another_makes_others(monkeypatch, written):
    # Writing YAML takes three quarters of the time, and does not depend on the seed.
    monkeypatch.setattr(cases, "dump", lambda document: json.dumps(document, default=str).encode())
    wrote = {"compact: as it is": written}
    first, again, other = (Cases(PEM, seed, wrote).all() for seed in (1, 1, 2))
    assert first == again
    assert {case.name for case in other} != {case.name for case in first}
    assert len(first) > 2000
    assert {case.name.partition(":")[0] for case in first} >= {*bases(""), "manifests", "text"}


def test_every_value_belongs_to_a_field_of_a_base(written):
    documents = [document for _, _, document in Cases(PEM, 1, {"compact: as it is": written}).documents()]
    used = {id(values_of(general(path))) for document in documents for path, _ in walk(document)}
    assert [ends for ends, values in VALUES.items() if id(values) not in used] == []


def test_a_merge_leaves_its_base_alone_and_replaces_platforms():
    base = {"platform": {"none": {}}, "a": {"b": 1}}
    assert merged(base, {"platform": {"x": {}}, "a": {"c": 2}}) == {"platform": {"x": {}}, "a": {"b": 1, "c": 2}}
    assert base == {"platform": {"none": {}}, "a": {"b": 1}}


def test_an_installer_answers_with_its_code_errors_and_files(tmp_path):
    program = tmp_path / "installer"
    program.write_text('#!/bin/sh\ncd "$5"; oc release info x > b; echo "level=fatal msg=$4 $5" >&2; exit 3\n')
    program.chmod(0o755)
    with installers([str(program)]) as (ask,):
        answers = ask([Input("x", {"a/a": b"1"}), Input("y", {})])
    assert answers == [
        Answer(3, "level=fatal msg=--dir DIR\n", {"a/a": "1", "b": "multi\n"}),
        Answer(3, "level=fatal msg=--dir DIR\n", {"b": "multi\n"}),
    ]


def test_node0_agrees_with_itself_and_not_with_one_that_refuses_all(tmp_path, monkeypatch, capsys):
    every = Cases.all
    chosen = ("text: no file", "manifests of compact: as it is")
    monkeypatch.setattr(Cases, "all", lambda self: [case for case in every(self) if case.name in chosen])
    monkeypatch.setattr(cases, "bases", lambda bundle: {name: bases(bundle)[name] for name in ("sno", "compact")})
    for name, nothing in {"walk": lambda document: (), "ADDED": (), "PAIRS": 0}.items():
        monkeypatch.setattr(cases, name, nothing)
    program = tmp_path / "installer"
    program.write_text(f'#!/bin/sh\nexec {" ".join(NODE0)} "$@"\n')
    program.chmod(0o755)
    comparison.run(program, 1)
    assert re.search(r"all but words +2 of +2 ", capsys.readouterr().out)
    program.write_text("#!/bin/sh\necho level=fatal msg=no >&2; exit 1\n")
    with pytest.raises(
        SystemExit, match="only openshift-install refuses: no: no\n      as in manifests of compact: as it is"
    ):
        comparison.run(program, 1)
