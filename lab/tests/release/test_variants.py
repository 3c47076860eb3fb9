"""Lab releases that are broken on purpose differ from the lab release in one image, and say so when they run."""

import subprocess

import pytest

from lab.release import payload
from lab.release.__main__ import main
from lab.release.cluster.kube import payload as payload_objects
from lab.release.cluster.kube.payload import Manifest
from lab.release.cluster.version_operator.updates import precedence
from lab.release.components import COMPONENTS
from lab.release.stage.errors import ReleaseError
from lab.release.variants import NEXT, NONE, REAL_AGENT, VARIANTS, changed, chosen, edited, named

BY_TAG = {component.tag: component for component in COMPONENTS}
DIGESTS = {tag: f"sha256:{number:064x}" for number, tag in enumerate(BY_TAG, 1)}


@pytest.mark.parametrize("name", VARIANTS)
def test_one_image_is_to_blame(name):
    variant = VARIANTS[name]
    other = {tag for tag, component in BY_TAG.items() if changed(component, variant) != component}
    renamed = {tag for tag, digest in named(DIGESTS, variant).items() if digest != DIGESTS[tag]}
    assert other | renamed == {variant.component}
    assert not other & renamed


@pytest.mark.parametrize("command", ["build", "kubernetes", "machine-os", "path", "verify", "prune", "show"])
def test_help_of_each_command_can_be_read(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    output = "".join(capsys.readouterr().out.split())  # lines break within names
    assert all(name in output for name in (VARIANTS if command == "build" else ()))


def test_without_a_variant_nothing_differs():
    assert all(changed(component, NONE) == component for component in COMPONENTS)
    assert named(DIGESTS, NONE) == DIGESTS


@pytest.mark.parametrize("name", [name for name, variant in VARIANTS.items() if not variant.absent])
def test_the_program_keeps_its_name_and_the_real_one_is_behind_it(name, tmp_path):
    before, after = BY_TAG[VARIANTS[name].component], changed(BY_TAG[VARIANTS[name].component], VARIANTS[name])
    [path] = set(after.programs) - set(before.programs)
    assert path in before.commands
    assert path not in after.commands
    script = tmp_path / "script"
    script.write_text(after.programs[path])
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=10)
    moved = set(after.commands) - set(before.commands)
    assert all(f"exec /{real} " in after.programs[path] for real in moved)
    assert {after.commands[real] for real in moved} <= set(before.commands.values())


def test_one_start_of_five_crashes(tmp_path):
    text = changed(BY_TAG["agent-installer-api-server"], VARIANTS["service-crashes"]).programs[
        "usr/bin/assisted-service"
    ]
    script = tmp_path / "script"
    script.write_text(text.replace("exec /usr/libexec/variant/assisted-service", "exec true"))
    argv = ["bash", "-c", 'for start in {1..200}; do (. "$1" 2>&-); echo $?; done', "bash", str(script)]
    codes = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.split()
    assert set(codes) == {"0", "134"}
    # In 200 throws at one in five, fewer than 15 or more than 75 are seen less than once in ten million runs.
    assert 15 <= codes.count("134") <= 75


def test_another_agent_takes_the_place_of_ours_and_only_that(tmp_path):
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    for wrong, words in ((None, "needs --agent"), (tmp_path, "must hold OpenShift's agent")):
        with pytest.raises(ReleaseError, match=words):
            chosen(REAL_AGENT, wrong)
    program.chmod(0o755)
    variant = chosen(REAL_AGENT, tmp_path)
    assert {tag for tag, item in BY_TAG.items() if changed(item, variant) != item} == {variant.component}
    after = changed(BY_TAG[variant.component], variant)
    assert (after.cmd, after.code, dict(after.commands)) == (("/usr/bin/agent",), (), {})
    assert after.built == {"usr/libexec/real/agent": program}
    # One program, known by its name: as what it is to be, and behind the name that a host starts.
    assert set(after.links) >= {"usr/bin/inventory", "usr/bin/next_step_runner"}
    assert set(after.links.values()) == {"/usr/libexec/real/agent"}
    assert "exec /usr/libexec/real/agent " in after.programs["usr/bin/agent"]
    assert set(after.packages) == set(variant.packages)


def test_fio_of_another_agent_says_nothing_in_front_of_its_json(tmp_path):
    """In a user namespace fio cannot empty a disk's cache, and says so where its JSON is, unless it is told not to."""
    (tmp_path / "agent").write_text("")
    (tmp_path / "agent").chmod(0o755)
    variant = chosen(REAL_AGENT, tmp_path)
    text = changed(BY_TAG[variant.component], variant).programs["usr/local/bin/fio"]
    completed = subprocess.run(
        ["sh", "-c", text.replace("exec /usr/bin/fio", "echo"), "fio", "--name=test", "--filename", "/dev/v db"],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    # Whatever stands in front of the first --name holds for all jobs.
    assert completed.stdout == "--invalidate=0 --name=test --filename /dev/v db\n"


@pytest.mark.parametrize("name", NEXT)
def test_a_release_to_upgrade_to_has_other_images_and_manifests(name):
    variant, before = NEXT[name], payload.release_manifests()
    assert {tag for tag, item in BY_TAG.items() if changed(item, variant) != item} == set(variant.marked)
    after = edited(before, variant)
    assert {file for file, text in after.items() if before.get(file) != text} == set(variant.manifests)
    objects = {file: payload_objects.read_objects(text, file) for file, text in after.items() if "{{" not in text}
    bindings = {
        obj["metadata"]["name"]: Manifest("x", 50, "x", obj).annotated("release.openshift.io/delete")
        for obj in objects["0000_50_console_02_roles.yaml"]
        if obj["kind"] == "ClusterRoleBinding"
    }
    assert bindings == {"console": True, "console-viewer": False}
    assert precedence(variant.version) > precedence(payload.BASE_VERSION)
