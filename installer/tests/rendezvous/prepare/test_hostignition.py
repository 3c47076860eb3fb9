"""Ignition that users give: what Ignition would not read is refused where it comes in, and versions are numbers."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest

from installer.assisted.errors import PrepareError
from installer.rendezvous.prepare import hostignition
from installer.rendezvous.store.model import Host

VERSION = {"ignition": {"version": "3.2.0"}}
FILE = {"path": "/etc/x", "contents": {"source": "data:,x"}}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ([], "it must be an object, not a list"),
        ("x", "it must be an object, not a text"),
        ({}, "ignition is required"),
        ({"ignition": 5}, "ignition must be an object, not a whole number"),
        ({"ignition": {}}, "ignition.version is required"),
        ({"ignition": {"version": 3}}, "ignition.version must be a text, not a whole number"),
        *(
            ({"ignition": {"version": version}}, "ignition.version must be one of 3.0.0, 3.1.0, 3.2.0, 3.3.0")
            for version in (
                "3.x",
                "3.",
                "3",
                "2.2.0",
                "4.0.0",
                "3.2.0\n",
                "3.2.0-experimental",
                "3.2.0.1",
                "3.9.0",
                "3.4.0",
            )
        ),
        ({**VERSION, "storage": 5}, "storage must be an object, not a whole number"),
        ({**VERSION, "storage": {"files": 5}}, "storage.files must be a list, not a whole number"),
        ({**VERSION, "storage": {"files": [5]}}, "storage.files[0] must be an object, not a whole number"),
        ({**VERSION, "storage": {"luks": {}}}, "storage.luks must be a list, not an object"),
        ({**VERSION, "systemd": {"units": ["a"]}}, "systemd.units[0] must be an object, not a text"),
        ({**VERSION, "passwd": {"users": "core"}}, "passwd.users must be a list, not a text"),
    ],
)
def test_what_is_no_ignition_is_refused_by_its_field(config: Any, problem: str) -> None:
    with pytest.raises(PrepareError) as caught:
        hostignition.overrides(json.dumps(config), "config")
    assert f"config: not an Ignition config: {problem}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(PrepareError, match="not an Ignition config: "):
        hostignition.overrides(text, "config")
    with pytest.raises(PrepareError, match="not an Ignition config: "):
        hostignition.parse(text, "config")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"storage": None, "systemd": None, "passwd": None},
        {
            "storage": {
                "files": None,
                "disks": [],
                "raid": [{"name": "r", "level": "raid0", "devices": ["/dev/x"]}],
                "files2": 7,
            }
        },
        {"storage": {"files": [FILE], "directories": [{"path": "/x"}], "links": [{"path": "/y", "target": "/x"}]}},
        {"systemd": {"units": [{"name": "x.service", "enabled": True}]}},
        {"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}], "groups": [{"name": "g"}]}},
        {"kernelArguments": {"shouldExist": ["a=1"]}, "whatever": 5},
    ],
)
def test_what_ignition_reads_is_taken(more: Any) -> None:
    """Null is as if it were not there, and what Ignition does not know it passes over."""
    config = {**VERSION, **more}
    assert hostignition.overrides(json.dumps(config), "config") == config


@pytest.mark.parametrize(("first", "second"), [("3.2.0", "3.10.0"), ("3.10.0", "3.2.0"), ("3.9.0", "3.10.0")])
def test_the_later_version_is_the_larger_number(first: str, second: str) -> None:
    merged = hostignition.overridden(
        {"ignition": {"version": first}, "storage": {"files": [FILE]}}, {"ignition": {"version": second}}, "config"
    )
    assert merged == {"ignition": {"version": "3.10.0"}, "storage": {"files": [FILE]}}


@pytest.mark.parametrize("text", ["[]", "5", "{}", '{"ignition": 5}', '{"ignition": {"version": "2.2.0"}}'])
def test_what_an_installer_made_must_be_of_ignition_3(text: str) -> None:
    with pytest.raises(PrepareError, match="pointer: not an Ignition config: "):
        hostignition.parse(text, "pointer")
    later = '{"ignition": {"version": "3.99.0"}}'
    assert hostignition.parse(later, "pointer") == json.loads(later)


def test_overrides_that_cannot_be_merged_are_refused() -> None:
    base = {**VERSION, "storage": {"files": [FILE]}}
    link = {**VERSION, "storage": {"links": [{"path": "/etc/x", "target": "/y"}]}}
    with pytest.raises(PrepareError, match=r"config: not an Ignition config: storage\.path /etc/x is there twice"):
        hostignition.overridden(base, link, "config")
    above = {**VERSION, "storage": {"links": [{"path": "/etc", "target": "/y"}]}}
    with pytest.raises(PrepareError, match=r"storage\.path /etc/x lies below a link"):
        hostignition.overridden(base, above, "config")


def test_the_ignition_of_a_host() -> None:
    pointer = json.dumps({**VERSION, "storage": {"files": [FILE]}}).encode()
    asked, named = (
        Host(id="h", infra_env_id="e", requested_hostname="a"),
        Host(id="h", infra_env_id="e", requested_hostname="a", user_hostname="b"),
    )
    for host, name in ((asked, "a"), (named, "b")):
        config = json.loads(hostignition.for_host(pointer, host, "s"))
        contents = {"source": f"data:,{name}"}
        own = {"path": "/etc/hostname", "mode": 0o644, "overwrite": True, "contents": contents}
        assert config == {**VERSION, "storage": {"files": [FILE, own]}}
    override = {"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/etc/chrony.conf", "mode": 0o600}]}}
    host = msgspec.structs.replace(asked, ignition_config_overrides=json.dumps(override))
    config = json.loads(hostignition.for_host(pointer, host, "s", ["ntp.a", "192.0.2.1"]))
    assert config["ignition"]["version"] == "3.3.0"
    chrony = config["storage"]["files"][-1]
    assert (chrony["path"], chrony["mode"]) == ("/etc/chrony.conf", 0o600)
    text = unquote(chrony["contents"]["source"].removeprefix("data:,"))
    assert text == "server ntp.a iburst\nserver 192.0.2.1 iburst\nmakestep 1.0 3\nrtcsync\n"
    with pytest.raises(PrepareError, match="ignition overrides of host h: not an Ignition config"):
        hostignition.for_host(pointer, msgspec.structs.replace(asked, ignition_config_overrides="{}"), "s")
