"""Configs that Ignition refuses are refused here: by ignition-validate 2.14's verdict unless a test says otherwise."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
from functools import reduce
from typing import Any
from urllib.parse import quote

import pytest

from installer.ignition.validation import problems

V2, V3 = {"ignition": {"version": "3.2.0"}}, {"ignition": {"version": "3.3.0"}}
SHA256, SHA512 = f"sha256-{hashlib.sha256(b'x').hexdigest()}", f"sha512-{hashlib.sha512(b'x').hexdigest()}"
PACKED = gzip.compress(b"x")
TANG = {"url": "http://x", "thumbprint": "t"}
PIN = {"pin": "tpm2", "config": "x"}
UNIT = {"name": "a.service", "contents": "[Unit]\nA=b"}
UNIT_FILE = "/etc/systemd/system/a.service"


def file(**fields: Any) -> dict[str, Any]:
    return {**V2, "storage": {"files": [{"path": "/a", **fields}]}}


def contents(source: str, **fields: Any) -> dict[str, Any]:
    return file(contents={"source": source, **fields})


def storage(base: dict[str, Any] = V2, **lists: Any) -> dict[str, Any]:
    return {**base, "storage": lists}


def one(kind: str, base: dict[str, Any] = V2, **fields: Any) -> dict[str, Any]:
    least: dict[str, dict[str, Any]] = {
        "disks": {"device": "/d"},
        "filesystems": {"device": "/d"},
        "raid": {"name": "r", "level": "raid1", "devices": ["/a", "/b"]},
        "luks": {"name": "r", "device": "/a"},
        "links": {"path": "/a", "target": "/b"},
    }
    return {**base, "storage": {kind: [{**least[kind], **fields}]}}


def disk(*partitions: dict[str, Any]) -> dict[str, Any]:
    return one("disks", partitions=list(partitions))


def part(number: int, start: int, size: int) -> dict[str, Any]:
    return {"number": number, "startMiB": start, "sizeMiB": size}


def data(raw: bytes) -> str:
    return f"data:;base64,{base64.b64encode(raw).decode()}"


def merged(config: Any, **fields: Any) -> dict[str, Any]:
    return ignition(config={"merge": [{"source": data(json.dumps(config).encode()), **fields}]})


def authority(text: bytes) -> dict[str, Any]:
    return ignition(security={"tls": {"certificateAuthorities": [{"source": data(text)}]}})


def unit(text: str) -> dict[str, Any]:
    return {**V2, "systemd": {"units": [{"name": "a.service", "contents": text}]}}


def units(*items: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {**V2, **sections, "systemd": {"units": list(items)}}


def passwd(**lists: Any) -> dict[str, Any]:
    return {**V2, "passwd": lists}


def ignition(**fields: Any) -> dict[str, Any]:
    return {"ignition": {"version": "3.2.0", **fields}}


DATA = "contents.source must be a well-formed data URL"
URL = "contents.source must be a URL of http"
CLEAN = "files[0].path must have no //"
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        ({"ignition": {"version": v}}, "ignition.version must be one of")
        for v in ("3.9.0", "3.4.0", "3.3.0+x", "2.2.0")
    ),
    *((file(path=p), "files[0].path must be absolute") for p in ("a", "./a", "a/b")),
    *((file(path=p), CLEAN) for p in ("//a", "/a/", "/a/../b", "/a/./b", "/a//b", "/..", "/.")),
    *((file(path=p), "files[0].path is required") for p in ("", None)),
    (file(path="/" + "a" * 4095), "files[0].path must have at most 4095 bytes"),  # Linux refuses it
    *((file(mode=m), "files[0].mode must be from 0") for m in (-1, 0o10000)),
    *((file(mode=m), "files[0].mode must be a whole number") for m in ("0644", 1.5, True, 1 << 63)),
    (file(overwrite=True), "overwrite must be false without contents.source"),
    (file(overwrite="yes"), "overwrite must be true or false, not a text"),
    (file(user={"id": 0, "name": "x"}), "files[0].user.id and name cannot both be set"),
    (file(group={"id": 1, "name": "x"}), "files[0].group.id and name cannot both be set"),
    (storage(files=[{"path": "/a"}] * 2), "storage.path /a is there twice"),
    (storage(files=[{"path": "/a"}], directories=[{"path": "/a"}]), "storage.path /a is there twice"),
    (
        storage(links=[{"path": "/a", "target": "b"}], files=[{"path": "/a/x/y"}]),
        "storage.path /a/x/y lies below a link",
    ),
    *((contents(s), DATA) for s in ("data:", "data:,a b", "data:,é", "data:,<>", "data:,a#b", "DATA:,x")),
    *((contents(s), DATA) for s in ("data:;base64,eHg", "data:;base64,_-8=", "data:text,a", "data:xx/y,a", "data:;,x")),
    *(
        (contents(s), DATA)
        for s in ("data:text/plain;charset=,x", "data:text/plain; charset=a,x", "data:;base64,e%48g=")
    ),
    *(
        (contents(s), URL)
        for s in ("x", "/a", "ftp://x", "data:,%zz", "oem:///x", "http://x/%zz", "http://[::1", "http://x:port/")
    ),
    *((contents(s), URL) for s in ("http://a b/", "http://x/\n", "arn:aws:s3:::b/x")),
    (contents("s3://b/x?versionId="), "contents.source must have a versionId"),
    (contents("data:,x", compression="xz"), "contents.compression must be gzip"),
    *(
        (contents("data:,x", verification={"hash": h}), "verification.hash must be")
        for h in ("", "x", SHA256[:-1], "md5-a")
    ),
    (
        contents("data:,x", verification={"hash": "sha256-" + "z" * 64}),
        "hash must be",
    ),  # it only fails when it is fetched
    (file(contents={"verification": {"hash": SHA256}}), "contents.source is required where there is a hash"),
    (file(append=[{"source": "ftp://x"}]), "append[0].source must be a URL"),
    (contents("data:,x", httpHeaders=[{"name": "a", "value": "b"}]), "httpHeaders need a source of http or https"),
    (contents("http://x", httpHeaders=[{"name": "", "value": "b"}]), "contents.name is required"),
    (contents("http://x", httpHeaders=[{"name": "a", "value": ""}]), "httpHeaders: value is required"),
    (contents("http://x", httpHeaders=[{"name": "a", "value": "b"}] * 2), "contents.name a is there twice"),
    (one("links", V3, target=None), "storage.target of link /a is required"),
    (
        storage(links=[{"path": "/a", "target": "../d", "hard": True}], directories=[{"path": "/d"}]),
        "storage.hard link /a must not lead to a directory",
    ),
    (one("disks", device="d"), "disks[0].device must be absolute"),
    (storage(disks=[{"device": "/d"}] * 2), "storage.device /d is there twice"),
    (disk({}), "a number from 1 or a label is required"),
    (disk({"number": 1}, {"number": 1}), "partition number 1 is there twice"),
    (disk({"label": "a"}, {"label": "a", "number": 2}), "partition label a is there twice"),
    (disk({"label": "é" * 19}), "label must have at most 36 bytes"),
    (disk({"label": "a:b"}), "and no colon"),
    (disk({"number": 1, "guid": "x"}), "guid and typeGuid must be GUIDs"),
    (disk({"number": 1, "shouldExist": False, "sizeMiB": 1}), "shouldExist false goes with a number alone"),
    (disk({"number": 1, "sizeMiB": -5}), "must not be negative"),  # sgdisk would fail
    (disk(part(1, 1, 10), part(2, 10, 10)), "partitions must not overlap"),
    (disk(part(1, 1, 0), part(2, 1, 10)), "partitions must not overlap"),
    *((one("filesystems", **{k: v}), "format is required with") for k, v in (("label", "x"), ("wipeFilesystem", True))),
    (one("filesystems", format="ntfs"), "format must be one of"),
    (one("filesystems", format="none"), "format none is there from version 3.3.0 on"),
    (one("filesystems", format="xfs", path="p"), "filesystems[0].path must be absolute"),
    *(
        (one("filesystems", format=f, label="x" * (n + 1)), f"label must have at most {n} bytes")
        for f, n in (("ext4", 16), ("xfs", 12), ("vfat", 11), ("swap", 15), ("btrfs", 256))
    ),
    (storage(filesystems=[{"device": "/d"}] * 2), "storage.device /d is there twice"),
    *((one("raid", level=level), "raid[0].level must be one of") for level in ("raid7", "", None)),
    (one("raid", devices=[]), "raid[0].devices are required"),
    (one("raid", devices=["a"]), "raid[0].devices must be absolute"),
    (one("raid", devices=["/a", "/a"]), "raid[0].device /a is there twice"),
    (one("raid", level="stripe", spares=1), "spares must be 0 at this level"),
    (one("luks", name="a/b"), "luks[0].name must have no /"),
    (one("luks", device=None), "luks[0].device is required"),
    (one("luks", label="x" * 48), "label must have at most 47 bytes"),
    (one("luks", keyFile={"source": "x"}), "keyFile.source must be a URL"),
    (one("luks", clevis={"tang": [{**TANG, "url": "ftp://x"}]}), "tang: a url of http or https and a thumbprint"),
    (one("luks", clevis={"tang": [{"url": "http://x"}]}), "tang: a url of http or https and a thumbprint"),
    (one("luks", clevis={"tang": [TANG, TANG]}), "urls of tang must differ"),
    (one("luks", clevis={"custom": {"pin": "tpm2"}}), "custom needs a config and a pin"),
    (one("luks", clevis={"custom": {**PIN, "pin": "x"}}), "custom needs a config and a pin"),
    (one("luks", clevis={"custom": PIN, "tpm2": True}), "custom excludes tang, tpm2 and threshold"),
    *((units({"name": name}), "units[0].name must end in one of") for name in ("a", "a.txt", "a.socket.d")),
    (units(UNIT, UNIT), "systemd.name a.service is there twice"),
    (units({**UNIT, "dropins": [{"name": "a"}]}), "dropins: name must end in .conf"),
    (units({**UNIT, "dropins": [{"name": "a.conf"}] * 2}), "drop-in a.conf is there twice"),
    (
        units({**UNIT, "dropins": [{"name": "a.conf", "contents": "[U]\nA"}]}),
        "dropins[0].contents: line 2 must be an option",
    ),
    *(
        (unit(text), "contents: line 2 must be an option with =")
        for text in ("[Unit]\nA", "[U]\nfoo bar\nA=b", "[U]\n]")
    ),
    *((unit(text), "must be a section and no more") for text in ("[Unit\nA=b", "[Unit]x\nA=b", "[U]\n[V]\\\nA=b")),
    (unit("A=b\n[Unit]"), "line 1 must be an option with = within a section"),  # systemd would pass over it
    (unit("[Unit]\nA=" + "x" * 2046), "line 2 must have less than 2048 bytes"),
    # By Ignition since 2.15.
    (units(UNIT, storage={"files": [{"path": UNIT_FILE}]}), f"storage must not have the path of a unit, {UNIT_FILE}"),
    (passwd(users=[{"name": "a"}] * 2), "passwd.name a is there twice"),
    (passwd(users=[{"name": "a", "sshAuthorizedKeys": ["k", "k"]}]), "sshAuthorizedKeys must differ"),
    (passwd(users=[{"name": ""}]), "passwd.name is required"),  # useradd would fail
    (passwd(groups=[{"name": "a"}] * 2), "passwd.name a is there twice"),
    (passwd(users=[{"name": "a", "uid": "1"}]), "users[0].uid must be a whole number, not a text"),
    # What only fetching shows.
    *(
        (contents(source, verification={"hash": h}), "contents.verification.hash is not that of source")
        for source in ("data:,y", "data:,%58", data(b"y"))
        for h in (SHA256, SHA512)
    ),
    (contents(data(PACKED), verification={"hash": SHA256}), "hash is not that of source"),
    *(
        (contents(source, compression="gzip"), "contents.compression is gzip, and source holds none")
        for source in ("data:,", "data:,x", data(PACKED[:-1]), data(PACKED + b"x"), data(PACKED[:12]))
    ),
    (one("luks", keyFile={"source": "data:,x", "compression": "gzip"}), "keyFile.compression is gzip"),
    (merged({}), "config.merge[0]: ignition is required"),
    (merged(merged(file(path="a"))), "merge[0]: ignition.config.merge[0]: storage.files[0].path must be absolute"),
    (ignition(config={"merge": [{"source": "data:,x"}]}), "config.merge[0] is no Ignition config"),
    (ignition(config={"replace": {"source": "data:,x"}}), "config.replace is no Ignition config"),
    (authority(b"x"), "certificateAuthorities must be PEM certificates"),
    # Go takes it, and no path, argument or unit can have it.
    (file(path="/a\0b"), "storage.files[0].path must have no NUL"),
    (one("links", target="/a\0"), "storage.links[0].target must have no NUL"),
    (passwd(users=[{"name": "a\0"}]), "passwd.users[0].name must have no NUL"),
    ({**V3, "kernelArguments": {"shouldExist": ["a\0"]}}, "kernelArguments.shouldExist[0] must have no NUL"),
    (ignition(config={"merge": [{}]}), "source is required in merge"),
    (ignition(config={"merge": [{"source": "http://x"}] * 2}), "sources of merge must differ"),
    (ignition(config={"replace": {"source": "x"}}), "config.replace.source must be a URL"),
    (ignition(proxy={"httpProxy": "x"}), "httpProxy must be a URL of http or https"),
    (ignition(proxy={"noProxy": ["a", "a"]}), "entries of noProxy must differ"),
    (ignition(security={"tls": {"certificateAuthorities": [{}]}}), "source is required in certificateAuthorities"),
    (ignition(timeouts={"httpTotal": "x"}), "timeouts.httpTotal must be a whole number"),
    ({**V3, "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["a"]}}, "arguments must differ"),
    # Go reads these as well, and our merge would not.
    ({**V2, "storage": {"Files": []}}, "storage.files is not spelt so"),
    ({"ignition": {"Version": "3.2.0"}}, "ignition.version is not spelt so"),
]
TAKEN: list[dict[str, Any]] = [
    *({"ignition": {"version": f"3.{minor}.0"}} for minor in range(4)),
    {**V2, "whatever": 1, "storage": None},
    *(file(path=p) for p in ("/", "/é", "/a/..b", "/.a")),
    *(file(mode=m) for m in (0, 0o7777, None)),
    file(overwrite=True, contents={"source": ""}),
    file(user={"name": "x"}, group={"id": 0}),
    storage(files=[{"path": "/ab/x"}], links=[{"path": "/a", "target": "b"}]),
    *(
        contents(s)
        for s in ("data:,", "data:,a%20b?c;d", "data:text/plain;charset=utf-8;base64,eHg=", "data:;base64,eHg=")
    ),
    *(
        contents(s)
        for s in ("http://x", "https://u:p@x:8/y?%zz#z", "tftp://x/y", "gs://b/x", "s3://b/x?versionId=a", "")
    ),
    *(contents("data:,x", verification={"hash": h}) for h in (SHA256, SHA512)),
    contents("http://x", compression="gzip", httpHeaders=[{"name": "a", "value": "b"}]),
    storage(links=[{"path": "/a", "target": "d", "hard": True}], directories=[{"path": "/d"}]),
    disk(part(1, 1, 10), part(2, 11, 10), part(3, 0, 0), {"number": 0, "label": ""}),
    disk(
        {"number": 1, "guid": "", "typeGuid": "01234567-89AB-CDEF-EDCB-A98765432101"},
        {"number": 2, "shouldExist": False},
    ),
    one("filesystems", format="xfs", label="x" * 12, options=["a", "a"], mountOptions=["b", "b"], path="/p"),
    one("filesystems", V3, format="none"),
    one("raid", level="10", spares=1, options=["a", "a"]),
    *(one("luks", clevis=c) for c in ({}, {"tpm2": True, "tang": [TANG], "threshold": 2}, {"custom": PIN})),
    units({"name": ".service"}, {**UNIT, "enabled": True, "dropins": [{"name": "a.conf", "contents": ""}]}),
    *(unit(text) for text in ("", "#x\n;y\n[U]\n=b\n\n A = b\\\nc\nd=e", "[Unit]\r\nA=b\r\n", "[U]\nA=b\\\n[X]\nC=d")),
    units({"name": "a.service"}, storage={"files": [{"path": UNIT_FILE}]}),
    passwd(users=[{"name": "a", "groups": ["x"]}], groups=[{"name": "a"}]),
    contents(data(PACKED), compression="gzip", verification={"hash": SHA256}),
    contents(
        data(PACKED), compression="gzip", verification={"hash": "sha512-" + SHA512.removeprefix("sha512-").upper()}
    ),
    contents(data(PACKED + gzip.compress(b"")), compression="gzip", verification={"hash": SHA256}),
    contents(data(gzip.compress(b"")), compression="gzip"),
    contents(data(gzip.compress(b"\0" * 1_000_000)), compression="gzip", verification={"hash": SHA256}),
    merged(merged(V3)),
    merged({}, compression="gzip", source=data(gzip.compress(b"{}"))),
    ignition(config={"merge": [{"source": "http://x"}], "replace": {}}, proxy={"httpsProxy": "http://x"}),
    {**V3, "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["b"]}},
]


@pytest.mark.parametrize(("config", "problem"), REFUSED)
def test_what_ignition_refuses_is_told_with_its_path(config: dict[str, Any], problem: str) -> None:
    found = problems(config)
    assert len(found) == 1, found
    assert problem in found[0]


@pytest.mark.parametrize("config", TAKEN)
def test_what_ignition_takes_is_taken(config: dict[str, Any]) -> None:
    assert problems(config) == []


def test_all_problems_are_told_and_no_secret() -> None:
    secret = {"source": "http://user:hunter2@x"}
    broken = [file(path="x")["storage"], ignition(config={"merge": [secret, secret]})["ignition"]]
    found = problems({"storage": broken[0], "ignition": broken[1], "passwd": {"users": [{"name": "a"}] * 2}})
    assert len(found) == 3
    assert "hunter2" not in str(found)


def test_long_paths_cost_no_time() -> None:
    """Each path is looked up with those above it: of a million levels that would take minutes."""
    assert problems(storage(links=[{"path": "/a" * 1_000_000, "target": "x"}])) != []


@pytest.mark.parametrize(
    "config",
    [
        contents(data(gzip.compress(b"") * 100_000), compression="gzip", verification={"hash": SHA256}),
        reduce(
            lambda inner, _: ignition(config={"replace": {"source": f"data:,{quote(json.dumps(inner))}"}}),
            range(150),
            V2,
        ),
    ],
    ids=["members", "levels"],
)
def test_what_holds_too_much_is_not_judged(config: dict[str, Any]) -> None:
    """These took the service's loop for 10 and 30 s; Ignition itself may take them."""
    begin = time.process_time()
    assert problems(config) == []
    assert time.process_time() - begin < 3
