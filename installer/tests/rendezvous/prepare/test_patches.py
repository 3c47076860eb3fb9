"""Users' manifests as the payload's installer gets them: patches applied, documents in files of their own."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.assisted.errors import BadRequest, PrepareError
from installer.common.formats.yamltext import load
from installer.rendezvous.prepare import installer as prepare
from installer.rendezvous.prepare import patches
from installer.rendezvous.resources import manifests
from installer.rendezvous.settings import Settings
from installer.rendezvous.store.model import Cluster, Manifest
from installer.testing.engine import sent_kit
from installer.testing.engine.fleet_kit import Fleet, discovered

# An installer with manifests of its own, whose bootstrap.ign holds all that lies in its folder.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
work = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
if sys.argv[2] == "manifests":
    for name in ("manifests", "openshift"):
        (work / name).mkdir()
    (work / "manifests/scheduler.yml").write_text("spec:\\n  mastersSchedulable: false\\n")
else:
    files = {f"{p.parent.name}/{p.name}": p.read_text() for p in work.glob("*/*")}
    for role in ("bootstrap", "master", "worker"):
        (work / f"{role}.ign").write_text(json.dumps({"ignition": {"version": "3.2.0"}, "files": files}))
"""
THREE = b"a: 1\n---\n# nothing\n---\nb: 2\n---\n---\nc: 3\n"
SCHEDULABLE = b"- op: replace\n  path: /spec/mastersSchedulable\n  value: true\n"
Run = Callable[..., dict[str, object]]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return discovered(tmp_path)


@pytest.fixture
def generated(tmp_path: Path) -> Run:
    """Return the manifests that ignition is made of, parsed, by folder and name, from these manifests of the user."""
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)

    def run(**files: bytes) -> dict[str, object]:
        settings = Settings(work_dir=tmp_path / "data", registries_conf=tmp_path / "none", installer_binary=program)
        stored = [
            Manifest(folder=folder, file_name=name, content=content)
            for (folder, name), content in ((key.split("/"), content) for key, content in files.items())
        ]
        cluster = Cluster(id="c", name="c", control_plane_count=3)
        job = prepare.Job(cluster=cluster, infra_envs=(), hosts=(), manifests=stored, settings=settings, name="f" * 16)
        made = json.loads(prepare.generate(job)["bootstrap.ign"])["files"]
        return {name: load(text) for name, text in made.items()}

    return run


def test_patches_are_applied_in_the_order_of_their_names_and_gone(generated: Run) -> None:
    files = generated(
        **{
            "openshift/mine.yaml": b"items: [{name: a, x: 1}, {name: b}]\n",
            "manifests/mine.yaml.patch_2": b"- {op: remove, path: /items/0/x}\n- {op: test, path: /n, value: 5}\n",
            "manifests/mine.yaml.patch_1": b"- {op: add, path: /n, value: 5}\n- {op: add, path: /items/-, value: 3}",
            "openshift/scheduler.yml.patch": SCHEDULABLE,
            "openshift/no.patch.yaml": b"a: 1",
        }
    )
    assert files == {
        "openshift/no.patch.yaml": {"a": 1},
        "manifests/scheduler.yml": {"spec": {"mastersSchedulable": True}},
        "openshift/mine.yaml": {"items": [{"name": "a"}, {"name": "b"}, 3], "n": 5},
    }


def test_each_document_gets_a_file(generated: Run) -> None:
    files = generated(**{"openshift/x.yaml": THREE, "manifests/y.yml": b"---\na: 1\n---\n", "manifests/z.json": b"{}"})
    del files["manifests/scheduler.yml"]
    assert files == {
        **{f"openshift/x-fffffff-0{n}.yaml": {key: n + 1} for n, key in enumerate("abc")},
        "manifests/y.yml": {"a": 1},
        "manifests/z.json": {},
    }


def test_the_longest_name_has_room_for_those_of_its_documents(generated: Run) -> None:
    name = "x" * (manifests.LONGEST_NAME - len(".yaml")) + ".yaml"
    manifests.check_new(name, THREE)
    assert len(generated(**{f"openshift/{name}": THREE})) == 4
    with pytest.raises(BadRequest, match="must have at most 200 bytes"):
        manifests.check_new(f"x{name}", THREE)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"openshift/none.yaml.patch": SCHEDULABLE}, "none.yaml.patch: there is no manifest none.yaml that it could"),
        ({"openshift/x.yaml": THREE, "openshift/x.yaml.patch": SCHEDULABLE}, "there is no manifest x.yaml"),
        ({"openshift/scheduler.yml.patch": b"- {op: replace, path: /spec/x, value: 1}"}, "replace /spec/x: cannot be"),
        ({"openshift/scheduler.yml.patch": b"- {op: test, path: /spec, value: 1}"}, "test /spec: cannot be done"),
    ],
)
def test_a_patch_that_cannot_be_applied_fails_the_preparation(
    generated: Run, tmp_path: Path, files: dict[str, bytes], problem: str
) -> None:
    with pytest.raises(PrepareError, match=problem) as caught:
        generated(**files)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        ("", {"a": {"b": [1, 2]}, "c": [{"k": "v", "m": 1}, {"k": "w"}], "d/e": 3}),
        ("- {op: copy, from: /a/b/0, path: /f}\n- {op: move, from: /a/b, path: /g}\n- {op: remove, path: /c}\n"
         "- {op: replace, path: /d~1e, value: null}", {"a": {}, "d/e": None, "f": 1, "g": [1, 2]}),
        ("- {op: add, path: /a/b/1, value: 7}\n- {op: replace, path: /a/b/0, value: 6}\n- {op: remove, path: /c}",
         {"a": {"b": [6, 7, 2]}, "d/e": 3}),
        ("- {op: replace, path: /c/k=v/m, value: 5}\n- {op: remove, path: /c/k=w}\n- {op: remove, path: /a}",
         {"c": [{"k": "v", "m": 5}], "d/e": 3}),
        ("- {op: add, path: /k=w/new, value: {x: [1]}}\n- {op: remove, path: /a}",
         {"c": [{"k": "v", "m": 1}, {"k": "w", "new": {"x": [1]}}], "d/e": 3}),
    ],
)  # fmt: skip
def test_operations(patch: str, wanted: object) -> None:
    manifest = b"a: {b: [1, 2]}\nc: [{k: v, m: 1}, {k: w}]\nd/e: 3\n"
    assert load(patches.applied(manifest, patch.encode())) == wanted


@pytest.mark.parametrize(
    ("patch", "wanted"),
    [
        # Of two that are removed from a list, the first does not move the second.
        ("- {op: remove, path: /c/k=v}", {"a": {"b": [1]}, "c": [{"k": "w"}, {"k": "x"}]}),
        # Each place has a value of its own, within what was copied too.
        ("- {op: copy, from: /a, path: /d}\n- {op: add, path: /d/b/-, value: 2}\n- {op: remove, path: /c}",
         {"a": {"b": [1]}, "d": {"b": [1, 2]}}),
        ("- {op: copy, from: /a, path: /a/x}\n- {op: remove, path: /c}", {"a": {"b": [1], "x": {"b": [1]}}}),
        ("- {op: add, path: /k=v/n, value: {}}\n- {op: add, path: /c/0/n/m, value: 1}\n- {op: remove, path: /a}",
         {"c": [{"k": "v", "n": {"m": 1}}, {"k": "w"}, {"k": "v", "n": {}}, {"k": "x"}]}),
    ],
)  # fmt: skip
def test_operations_of_several_places(patch: str, wanted: object) -> None:
    manifest = b"a: {b: [1]}\nc: [{k: v}, {k: w}, {k: v}, {k: x}]\n"
    assert load(patches.applied(manifest, patch.encode())) == wanted


@pytest.mark.parametrize(
    ("manifest", "place", "problem"),
    [(f"a: {{t: {'x' * 100_000}}}", "/x{}", "more than 2 MiB"), ("a: {}", "", "cannot be done|nested too deeply")],
)
def test_copies_of_copies_have_an_end(manifest: str, place: str, problem: str) -> None:
    """Each copy doubles what is there, or how deep it is."""
    patch = "".join(
        f"- {{op: copy, from: /a, path: /a{place.format(n) or '/x' * 2**n}}}\n" for n in range(6 if place else 12)
    )
    with pytest.raises(ValueError, match=problem):
        patches.applied(manifest.encode(), patch.encode())


@pytest.mark.parametrize(
    "operation",
    [
        *("{op: remove, path: /x}", "{op: remove, path: /a/b/2}", "{op: replace, path: /x}"),
        *("{op: add, path: /x/y}", "{op: add, path: /a/b/3}", "{op: add, path: /d/x}"),
        *("{op: remove, path: /a/b/-1}", "{op: move, from: /x, path: /y}", "{op: copy, from: /x, path: /y}"),
        *("{op: test, path: /d, value: 4}", "{op: remove, path: /k=x/m}"),
    ],
)  # fmt: skip
def test_operations_that_cannot_be_done(operation: str) -> None:
    with pytest.raises(ValueError, match=operation.split()[1].rstrip(",")):
        patches.applied(b"a: {b: [1, 2]}\nd: 3\n", f"- {operation}".encode())


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ("{}", "it must be a list, not an object"),
        ("- 5", r"\[0\] must be an object"),
        ("- {path: /a}", r"\[0\].op is required"),
        ("- {op: add}", r"\[0\].path is required"),
        ("- {op: merge, path: /a}", "Invalid enum value 'merge'"),
        ("- {op: add, path: a}", "must begin with /"),
        ("- {op: move, path: /a}", "must begin with /"),
        ("- {op: add, path: 5}", "must be a text"),
        ("[", "is not a valid patch"),
    ],
)
def test_what_is_no_patch_is_refused_at_the_door(fleet: Fleet, patch: str, problem: str) -> None:
    content = base64.b64encode(patch.encode()).decode()
    with pytest.raises(BadRequest, match=problem):
        sent_kit.put_manifest(fleet.world.engine, fleet.cluster_id, {"file_name": "a.yaml.patch_1", "content": content})


def test_a_name_is_in_one_folder_only(fleet: Fleet) -> None:
    """The bootstrap host puts both folders into one."""
    engine, identity, content = fleet.world.engine, fleet.cluster_id, base64.b64encode(b"a: 1").decode()
    sent_kit.put_manifest(engine, identity, {"folder": "openshift", "file_name": "a.yaml", "content": content})
    with pytest.raises(BadRequest, match="not distinct between"):
        sent_kit.put_manifest(engine, identity, {"folder": "manifests", "file_name": "a.yaml", "content": content})


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_so_much_may_be_put_in_place(monkeypatch: pytest.MonkeyPatch, more: int, fits: bool) -> None:
    monkeypatch.setattr(patches, "MOST_PLACED", 2 * len(repr("x" * 10)))
    patch = "".join(
        f"- {{op: add, path: /{name}, value: {'x' * size}}}\n" for name, size in (("a", 10), ("b", 10 + more))
    )
    if fits:
        assert patches.applied(b"{}", patch.encode()) == b"a: xxxxxxxxxx\nb: xxxxxxxxxx\n"
        return
    with pytest.raises(ValueError, match="would be put in place"):
        patches.applied(b"{}", patch.encode())
