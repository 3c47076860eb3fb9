"""Recorded Redfish trees as BMCs, and faults that are injected as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from lab.bmcs.profile import Profile, profile
from lab.bmcs.recorded import RecordingError, problem, profile_of, recording
from lab.testing.bmcs import PASSWORD, USER, Running, running

SYSTEM, DRIVE = "/redfish/v1/Systems/Blade7", "/redfish/v1/Managers/Card/VirtualMedia/Optical"


def put(folder: Path, path: str, body: dict[str, Any]) -> None:
    """Record a document."""
    place = folder / path[1:]
    place.mkdir(parents=True, exist_ok=True)
    (place / "index.json").write_text(json.dumps({"@odata.id": path, **body}))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Record a machine that no profile knows: two systems, media at its manager, an OEM's own resource."""
    folder, root = tmp_path / "tree", "/redfish/v1"

    def collection(kind: str, path: str, *members: str) -> None:
        links = [{"@odata.id": f"{path}/{name}"} for name in members]
        put(folder, path, {"@odata.type": f"#{kind}Collection.{kind}Collection", "Name": kind, "Members": links})

    put(folder, root, {"@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot", "Product": "Acme 7", "Id": "Root"})
    collection("ComputerSystem", f"{root}/Systems", "Blade7", "Blade8")
    targets = {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "UsbCd", "Hdd", "Diags"]}
    put(
        folder, SYSTEM,
        {"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "Id": "Blade7", "Manufacturer": "Acme", "Model": "B7",
         "PowerState": "On", "Boot": targets, "Oem": {"Acme": {"Slot": 7}}, "@odata.etag": 'W/"1"'},
    )  # fmt: skip
    put(folder, f"{root}/Systems/Blade8", {"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "Id": "Blade8"})
    collection("Manager", f"{root}/Managers", "Card")
    put(folder, f"{root}/Managers/Card", {"@odata.type": "#Manager.v1_3_1.Manager", "Id": "Card", "Model": "C1"})
    collection("VirtualMedia", DRIVE.rpartition("/")[0], "Optical")
    acts = {"#VirtualMedia.InsertMedia": {"target": f"{DRIVE}/Actions/VirtualMedia.InsertMedia"}}
    put(
        folder, DRIVE,
        {"@odata.type": "#VirtualMedia.v1_3_2.VirtualMedia", "Id": "Optical", "MediaTypes": ["CD", "DVD"],
         "Image": "http://old/x.iso", "Inserted": True, "Actions": acts, "Oem": {"Acme": {"Speed": 8}}},
    )  # fmt: skip
    put(folder, f"{root}/Oem/Acme", {"@odata.type": "#Acme.v1_0_0.Acme", "Id": "Acme", "Blades": 8})
    return folder


@pytest.fixture
def bmc(tree: Path, tmp_path: Path) -> Iterator[Running]:
    """Serve the recording as a BMC."""
    folder = tmp_path / "bmc"
    folder.mkdir()
    with running(str(tree), folder, encrypted=False, changed=profile_of(str(tree))) as served:
        yield served


def get(bmc: Running, path: str, status: int = 200) -> dict[str, Any]:
    """Return a document."""
    answer = requests.get(bmc.url + path, auth=(USER, PASSWORD), timeout=20)
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()
    return body


def post(bmc: Running, path: str, body: dict[str, Any]) -> int:
    """Return the status of an action."""
    return requests.post(bmc.url + path, json=body, auth=(USER, PASSWORD), timeout=20).status_code


def test_a_tree_becomes_a_profile(tree: Path) -> None:
    """Ids, drives, boot targets and the form of tags are read from it; nobody writes code or a row."""
    found: Profile = profile_of(str(tree))
    assert (found.system, found.manager, found.manufacturer, found.etag) == ("Blade7", "Card", "Acme", 'W/"{}"')
    assert (found.media.at, [drive.id for drive in found.media.drives]) == ("manager", ["Optical"])
    assert found.boot.targets == {"UsbCd": "Cd", "Hdd": "Hdd", "Diags": ""}
    assert profile_of("ilo") is profile("ilo")


def test_documents_are_recorded_and_their_state_is_the_machines(bmc: Running) -> None:
    """Machines that were on when recorded are off here, and the rest is as it was."""
    system = get(bmc, SYSTEM)
    assert (system["Model"], system["PowerState"], system["Oem"]) == ("B7", "Off", {"Acme": {"Slot": 7}})
    assert [item["@odata.id"] for item in get(bmc, "/redfish/v1/Systems")["Members"]] == [SYSTEM]
    assert get(bmc, "/redfish/v1/Oem/Acme")["Blades"] == 8
    drive = get(bmc, DRIVE)
    assert (drive["Inserted"], drive["Image"], drive["Oem"]) == (False, None, {"Acme": {"Speed": 8}})
    assert get(bmc, "/redfish/v1")["Product"] == "Acme 7"


def test_the_machine_is_switched_through_it(bmc: Running) -> None:
    """Actions are real: power, and a boot target that the vendor calls otherwise."""
    patch = {"Boot": {"BootSourceOverrideTarget": "UsbCd", "BootSourceOverrideEnabled": "Once"}}
    assert requests.patch(bmc.url + SYSTEM, json=patch, auth=(USER, PASSWORD), timeout=20).status_code < 300
    assert post(bmc, f"{SYSTEM}/Actions/ComputerSystem.Reset", {"ResetType": "On"}) < 300
    assert get(bmc, SYSTEM)["PowerState"] == "On"


def test_faults_are_injected_as_data(tree: Path, tmp_path: Path) -> None:
    """A status so many times, a body in place of the BMC's, and one that is merged into it."""
    rules = [
        {"path": f"{SYSTEM}/", "method": "GET", "status": 503, "times": 2},
        {"path": SYSTEM, "method": "PATCH", "status": 204},
        {"path": "/redfish/v1/Oem/*", "body": {"Id": "other"}},
        {"path": SYSTEM, "merge": {"PowerState": "PoweringOn", "Oem": None}},
    ]
    (tree / "injections.yaml").write_text(yaml.safe_dump(rules))
    recording.cache_clear()
    (folder := tmp_path / "bmc").mkdir()
    with running(str(tree), folder, encrypted=False, changed=profile_of(str(tree))) as served:
        assert "Injected" in get(served, SYSTEM, 503)["error"]["message"]
        get(served, SYSTEM, 503)
        system = get(served, SYSTEM)
        assert (system["PowerState"], "Oem" in system, system["Model"]) == ("PoweringOn", False, "B7")
        assert get(served, "/redfish/v1/Oem/Acme") == {"Id": "other"}
        done = requests.patch(served.url + SYSTEM, json={}, auth=(USER, PASSWORD), timeout=20)
        assert (done.status_code, done.text) == (204, "")


def _is(path: str, text: str) -> Callable[[Path], object]:
    """Write a file of a tree."""
    return lambda tree: (tree / path).write_text(text)


def _leads_to(target: str) -> Callable[[Path], object]:
    """Make a document a link."""

    def spoil(tree: Path) -> None:
        document = tree / "redfish/v1/Oem/Acme/index.json"
        document.rename(tree.parent / "outside.json")
        document.symlink_to(target)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_is("redfish/v1/Systems/index.json", '{"Members": 5}'), "Systems has no member"),
        (_is("redfish/v1/Oem/Acme/index.json", "[" * 100_000), "Acme/index.json: maximum recursion"),
        (_is("redfish/v1/Oem/Acme/index.json", f'{{"x": "{"x" * (16 << 20)}"}}'), "is larger than 16777216 bytes"),
        (_leads_to("/dev/zero"), "Acme/index.json: is no file of the recording"),
        (_leads_to("../../../../../outside.json"), "Acme/index.json: is no file of the recording"),
        (lambda tree: (tree / "injections.yaml").symlink_to("nowhere"), "injections.yaml: is no file"),
        (_is("injections.yaml", "- {path: /a, latency_seconds: -1}"), ">= 0.0 - at `$[0].latency_seconds`"),
        (_is("injections.yaml", "- {path: /a, latency_seconds: .nan}"), "at `$[0].latency_seconds`"),
        (_is("injections.yaml", "- {path: /a, status: 500, times: -1}"), "at `$[0].times`"),
        (_is("injections.yaml", "- {path: /a, status: 99}"), ">= 200 - at `$[0].status`"),
        (_is("injections.yaml", "- {path: /a, method: get, status: 500}"), "'get' - at `$[0].method`"),
        (_is("injections.yaml", "- {path: redfish/v1, status: 500}"), "at `$[0].path`"),
        (_is("injections.yaml", "- {path: /a, body: {x: .inf}}"), "not JSON compliant - at `$[0]`"),
        (_is("injections.yaml", "- {path: /a, status: 204, body: {}}"), "status 204 has no body"),
        (_is("injections.yaml", "- {path: /a, status: 500, merge: {}}"), "neither body nor status"),
        (_is("injections.yaml", "- {path: /a}"), "none of status, body, merge and latency_seconds"),
        (lambda tree: (tree / "redfish/v1/Systems/index.json").unlink(), "Systems has no member"),
        (lambda tree: (tree / "redfish/v1/Oem/Acme/index.json").write_text("{"), "Acme/index.json: "),
        (lambda tree: (tree / "injections.yaml").write_text("- {path: x, stauts: 500}"), "injections.yaml"),
    ],
)
def test_what_is_no_recording_is_refused(tree: Path, spoil: Any, words: str) -> None:
    """At the door, in one line that names the file."""
    spoil(tree)
    recording.cache_clear()
    assert words in problem(str(tree))
    assert "nor a path" in problem("idrac7")
    assert "not an absolute path" in problem("./tree")


def test_values_of_another_type_are_passed_over(tree: Path) -> None:
    """Real BMCs have such documents; theirs is no reason to refuse a recording, nor to fail later."""
    put(tree, SYSTEM, {"Boot": "none"})
    put(tree, DRIVE, {"Actions": 5, "MediaTypes": "CD"})
    recording.cache_clear()
    found = profile_of(str(tree))
    assert set(found.boot.targets) == {"Pxe", "Hdd", "Cd"}
    assert [(drive.types, drive.how) for drive in found.media.drives] == [((), "local")]


def test_a_folder_without_a_tree(tmp_path: Path) -> None:
    """It has no service root."""
    with pytest.raises(RecordingError, match=r"has no index\.json"):
        profile_of(str(tmp_path))
