"""Rules of Ignition's own validation, each for one kind of object (github.com/coreos/ignition, config/v3_3/types)."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

#: What Ignition reads in every OpenShift that is installed from here, and in the lab's OS.
VERSIONS = ("3.0.0", "3.1.0", "3.2.0", "3.3.0")
SCHEMES = ("http", "https", "tftp", "s3", "gs", "data")
LEVELS = (
    *("linear", "raid0", "0", "stripe", "raid1", "1", "mirror", "raid4", "4", "raid5", "5", "raid6", "6", "raid10"),
    "10",
)
WITHOUT_SPARES = LEVELS[:4]
# Bytes of a label, by the format of the file system.
LABELS = {"ext4": 16, "btrfs": 256, "xfs": 12, "swap": 15, "vfat": 11, "none": 256}
UNITS = (
    *(".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".snapshot"),
    *(".slice", ".scope"),
)
LONGEST_LINE = 2048
# Bytes that gzip of a data URL is unpacked to, for each character and at least, and its members; what holds more is not
# judged.
UNPACKED, LEAST_UNPACKED, MEMBERS = 64, 8 << 10, 64
# What Linux takes.
LONGEST_PATH = 4095
_GUID = re.compile(r"|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HASH = re.compile(r"sha512-[0-9a-fA-F]{128}|sha256-[0-9a-fA-F]{64}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# As Ignition's parser has it: of content, that of base64 too, only what a URL may have unescaped.
_DATA = re.compile(
    r"data:(?:(?:application|audio|image|message|model|multipart|text|video)/[\w.+-]+)?"
    r"""(?:;[\w-]+=(?:[\w.+-]+|"[\w.+-]+"))*(?:(;base64),([A-Za-z0-9+/=]*)|,(?:[\w!$&'(*+),;=:@/?.~-]|%[0-9A-Fa-f]{2})*)""",
    re.ASCII,
)

Object = dict[str, Any]
Problems = Iterator[str]
Rule = Callable[[Object], Problems]


def _path(item: Object, field: str = "path") -> Problems:
    path = item.get(field) or ""
    if not path:
        yield f"{field} is required"
    elif len(path.encode(errors="replace")) > LONGEST_PATH:
        yield f"{field} must have at most {LONGEST_PATH} bytes"
    elif not path.startswith("/"):
        yield f"{field} must be absolute"
    elif posixpath.normpath(f"/{path.lstrip('/')}") != path:
        yield f"{field} must have no //, . or .. in it, and no / at its end"


def _unique(keys: Iterable[object], what: str) -> Problems:
    yield from (f"{what} {str(key)[:80]} is there twice" for key, count in Counter(keys).items() if count > 1)


def _distinct(keys: Sequence[object], what: str) -> Problems:
    """As _unique, of what may be a secret."""
    if len(set(keys)) < len(keys):
        yield f"{what} must differ from each other"


def _names(items: Iterable[Object], field: str = "name") -> Problems:
    names = [item.get(field) for item in items]
    if not all(names):
        yield f"{field} is required"
    yield from _unique(filter(None, names), field)


def _scheme(url: str) -> str:
    """Return the scheme of a URL; empty for a text that Go cannot parse as one."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (it raises ValueError)
    except ValueError:
        return ""
    wrong = re.search(r"[\x00-\x1f\x7f]", url) or re.search(r'[ <>"]', parts.netloc)
    wrong = wrong or _BAD_ESCAPE.search(parts.netloc + parts.path + parts.fragment)
    return "" if wrong else parts.scheme


def _source(url: str) -> Problems:
    scheme = _scheme(url)
    data = _DATA.fullmatch(url)
    if scheme not in SCHEMES:
        yield f"source must be a URL of {', '.join(SCHEMES)}"
    elif scheme == "s3" and "" in parse_qs(urlsplit(url).query, keep_blank_values=True).get("versionId", ()):
        yield "source must have a versionId that is not empty, or none"
    elif scheme == "data" and (data is None or (data[1] and not _is_base64(data[2]))):
        yield "source must be a well-formed data URL"


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def content(item: Object) -> bytes | None:
    """Return what a resource's data URL holds, unpacked; None of other sources, and of what is too large to judge.

    Raises ValueError for what is to be unpacked and is no gzip.
    """
    source = item.get("source") or ""
    if not (data := _DATA.fullmatch(source)):
        return None
    raw = base64.b64decode(data[2]) if data[1] else unquote_to_bytes(source.partition(",")[2])
    return _unpacked(raw, LEAST_UNPACKED + UNPACKED * len(source)) if item.get("compression") == "gzip" else raw


def _unpacked(raw: bytes, limit: int) -> bytes | None:
    """Return what the members of gzip hold together, None if they or it are too many. Raises ValueError."""
    out = b""
    for _ in range(MEMBERS):
        member = zlib.decompressobj(31)
        try:
            out += member.decompress(raw, limit + 1 - len(out))
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if len(out) > limit:
            return None
        if not member.eof:
            raise ValueError("it ends too early")
        raw = member.unused_data
        if not raw:
            return out
    return None


def _content_problems(item: Object) -> Problems:
    """Judge a hash and a compression by what a data URL holds, as Ignition does when it fetches it."""
    try:
        found = content(item)
    except ValueError:
        yield "compression is gzip, and source holds none"
        return
    kind, _, digest = item.get("verification", {}).get("hash", "").partition("-")
    if found is not None and digest and hashlib.new(kind, found).hexdigest() != digest.lower():
        yield "verification.hash is not that of source"


def resource(item: Object) -> Problems:
    """Judge what is fetched, or given as a data URL."""
    source, digest = item.get("source"), item.get("verification", {}).get("hash")
    wrong = [*_source(source)] if source else []
    yield from wrong
    if item.get("compression", "") not in ("", "gzip"):
        yield "compression must be gzip"
    if digest is not None and source is None:
        yield "source is required where there is a hash"
    if digest is not None and not _HASH.fullmatch(digest):
        yield "verification.hash must be sha512- or sha256- and its digits"
    elif not wrong and (digest is not None or item.get("compression") == "gzip"):
        yield from _content_problems(item)
    headers = item.get("httpHeaders", [])
    if headers and not (source or "").startswith(("http:", "https:")):
        yield "httpHeaders need a source of http or https"
    if not all(header.get("value") for header in headers):
        yield "httpHeaders: value is required"
    yield from _names(headers)


def sources(field: str) -> Rule:
    """Yield the rule for an object with a list of resources, each with a source of its own."""

    def rule(item: Object) -> Problems:
        sources = [resource.get("source") for resource in item.get(field, ())]
        if not all(sources):
            yield f"source is required in {field}"
        yield from _distinct(sources, f"sources of {field}")

    return rule


def authorities(item: Object) -> Problems:
    """Judge certificate authorities, and the certificates of those in data URLs."""
    from cryptography import x509

    yield from sources("certificateAuthorities")(item)
    for resource in item.get("certificateAuthorities", ()):
        try:
            if blob := content(resource):
                x509.load_pem_x509_certificates(blob)
        except ValueError:
            yield "certificateAuthorities must be PEM certificates"


def ignition(item: Object) -> Problems:
    """Judge the section that says the version."""
    if "version" not in item:
        yield "version is required"
    elif item["version"] not in VERSIONS:
        yield f"version must be one of {', '.join(VERSIONS)}"


def proxy(item: Object) -> Problems:
    """Judge the proxies of Ignition's own requests."""
    for field in ("httpProxy", "httpsProxy"):
        if field in item and _scheme(item[field]) not in ("http", "https"):
            yield f"{field} must be a URL of http or https"
    yield from _distinct(item.get("noProxy", ()), "entries of noProxy")


def arguments(item: Object) -> Problems:
    """Judge kernel arguments."""
    yield from _distinct([*item.get("shouldExist", ()), *item.get("shouldNotExist", ())], "arguments")


def owner(item: Object) -> Problems:
    """Judge the user or group of a node."""
    if "id" in item and item.get("name"):
        yield "id and name cannot both be set"


def node(item: Object) -> Problems:
    """Judge what files, directories and links share."""
    yield from _path(item)
    if not 0 <= item.get("mode", 0) <= 0o7777:
        yield "mode must be from 0 to 4095 (octal 7777)"


def file(item: Object) -> Problems:
    """Judge a file."""
    yield from node(item)
    if item.get("overwrite") and item.get("contents", {}).get("source") is None:
        yield "overwrite must be false without contents.source"


def partition(item: Object) -> Problems:
    """Judge a partition."""
    label = item.get("label")
    if not item.get("number") and label is None:
        yield "a number from 1 or a label is required"
    if len((label or "").encode()) > 36 or ":" in (label or ""):
        yield "label must have at most 36 bytes and no colon"
    if any(not _GUID.fullmatch(item.get(field, "")) for field in ("guid", "typeGuid")):
        yield "guid and typeGuid must be GUIDs"
    if any(item.get(field, 0) < 0 for field in ("number", "startMiB", "sizeMiB")):
        yield "number, startMiB and sizeMiB must not be negative"
    others = label is not None or item.get("guid") or item.get("typeGuid") or {"startMiB", "sizeMiB"} & item.keys()
    if item.get("shouldExist") is False and others:
        yield "shouldExist false goes with a number alone"


def disk(item: Object) -> Problems:
    """Judge a disk and its partitions together."""
    yield from _path(item, "device")
    partitions = item.get("partitions", [])
    yield from _unique(filter(None, (part.get("number") for part in partitions)), "partition number")
    yield from _unique((part["label"] for part in partitions if "label" in part), "partition label")
    placed = sorted(
        (part["startMiB"], part["startMiB"] + max(part["sizeMiB"] - 1, 0))
        for part in partitions
        if part.get("startMiB") and "sizeMiB" in part
    )
    if any(start <= end for (_, end), (start, _) in pairwise(placed)):
        yield "partitions must not overlap"


def raid(item: Object) -> Problems:
    """Judge an array."""
    if item.get("level") not in LEVELS:
        yield f"level must be one of {', '.join(LEVELS)}"
    if not item.get("devices"):
        yield "devices are required"
    for device in item.get("devices", ()):
        yield from _path({"devices": device}, "devices")
    yield from _unique(item.get("devices", ()), "device")
    if item.get("spares") and item.get("level") in WITHOUT_SPARES:
        yield "spares must be 0 at this level"


def filesystem(item: Object) -> Problems:
    """Judge a file system."""
    yield from _path(item, "device")
    if item.get("path"):
        yield from _path(item)
    kind, others = item.get("format"), ("path", "label", "uuid", "wipeFilesystem", "options", "mountOptions")
    if not kind and any(item.get(field) for field in others):
        yield f"format is required with any of {', '.join(others)}"
    elif kind and kind not in LABELS:
        yield f"format must be one of {', '.join(LABELS)}"
    elif kind and len(item.get("label", "").encode()) > LABELS[kind]:
        yield f"label must have at most {LABELS[kind]} bytes"


def clevis(item: Object) -> Problems:
    """Judge how a LUKS volume is unlocked."""
    custom = item.get("custom", {})
    if any(custom.values()) and not (custom.get("pin") in ("tpm2", "tang", "sss") and custom.get("config")):
        yield "custom needs a config and a pin of tpm2, tang, sss"
    if "custom" in item and (item.get("tang") or item.get("tpm2") or item.get("threshold")):
        yield "custom excludes tang, tpm2 and threshold"
    for tang in item.get("tang", ()):
        if _scheme(tang.get("url", "")) not in ("http", "https") or not tang.get("thumbprint"):
            yield "tang: a url of http or https and a thumbprint are required"
    yield from _distinct([tang.get("url") for tang in item.get("tang", ())], "urls of tang")


def luks(item: Object) -> Problems:
    """Judge a LUKS volume."""
    yield from _path(item, "device")
    if "/" in item.get("name", ""):
        yield "name must have no /"
    if len(item.get("label", "").encode()) > 47:
        yield "label must have at most 47 bytes"


def storage(item: Object) -> Problems:
    """Judge what lies beside and below each other."""
    for kind, key in (("disks", "device"), ("filesystems", "device"), ("raid", "name"), ("luks", "name")):
        yield from _names(item.get(kind, []), key)
    paths = [node.get("path", "") for kind in ("files", "directories", "links") for node in item.get(kind, ())]
    yield from _unique(paths, "path")
    links = {link.get("path") for link in item.get("links", ())}
    for path in (path for path in paths if len(path) <= LONGEST_PATH):
        if any(path[:end] in links for end in (mark.start() for mark in re.finditer("/", path))):
            yield f"path {path[:80]} lies below a link"
    directories = {node.get("path") for node in item.get("directories", ())}
    for link in item.get("links", ()):
        path, target = link.get("path", ""), link.get("target")
        if not target:
            yield f"target of link {path[:80]} is required"
        elif link.get("hard") and posixpath.normpath(posixpath.join(path, target)) in directories:
            yield f"hard link {path[:80]} must not lead to a directory"


def unit_text(item: Object) -> Problems:
    """Sections, and options with `=`, as go-systemd reads units."""
    within = continued = False
    for number, line in enumerate(item.get("contents", "").split("\n"), 1):
        start = line.strip()
        if len(line.encode()) >= LONGEST_LINE:
            yield f"contents: line {number} must have less than {LONGEST_LINE} bytes"
        if continued:
            continued = line.endswith("\\")
        elif start.startswith("["):
            within = True
            if not start.endswith("]") or "]" in start[:-1]:
                yield f"contents: line {number} must be a section and no more"
        elif start and start[0] not in "#;":
            continued = line.endswith("\\")
            if not within or "=" not in line:
                yield f"contents: line {number} must be an option with = within a section"


def unit(item: Object) -> Problems:
    """Judge a unit."""
    if not item.get("name", "").endswith(UNITS):
        yield f"name must end in one of {', '.join(UNITS)}"
    if not all(drop_in.get("name", "").endswith(".conf") for drop_in in item.get("dropins", ())):
        yield "dropins: name must end in .conf"
    yield from _unique((drop_in.get("name") for drop_in in item.get("dropins", ())), "drop-in")
    yield from unit_text(item)


def systemd(item: Object) -> Problems:
    """Judge the units' names."""
    yield from _names(item.get("units", []))


def user(item: Object) -> Problems:
    """Judge a user."""
    for field in ("groups", "sshAuthorizedKeys"):
        yield from _distinct(item.get(field, ()), field)


def passwd(item: Object) -> Problems:
    """Judge the names of users and groups."""
    for kind in ("users", "groups"):
        yield from _names(item.get(kind, []))


def config(item: Object) -> Problems:
    """Judge what several sections hold together."""
    if "ignition" not in item:
        yield "ignition is required"
    storage, units = item.get("storage", {}), item.get("systemd", {}).get("units", ())
    is_early = item.get("ignition", {}).get("version") != "3.3.0"
    if is_early and any(system.get("format") == "none" for system in storage.get("filesystems", ())):
        yield "storage.filesystems: format none is there from version 3.3.0 on"
    texts = [(unit.get("name"), unit.get("contents")) for unit in units]
    texts += [(f"{u.get('name')}.d/{d.get('name')}", d.get("contents")) for u in units for d in u.get("dropins", ())]
    written = {f"/etc/systemd/system/{name}" for name, text in texts if text}
    paths = {node.get("path", "") for kind in ("files", "directories", "links") for node in storage.get(kind, ())}
    yield from (f"storage must not have the path of a unit, {path[:80]}" for path in sorted(written & paths))
