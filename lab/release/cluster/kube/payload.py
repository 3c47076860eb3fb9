"""Reading a release payload's manifests and image-references (reference/cluster.md §1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from installer.common.formats import YamlError, yamltext
from lab.release.cluster.errors import ManifestError, PayloadError, UnknownTag
from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.kube.client import Object

PROFILE = "include.release.openshift.io/self-managed-high-availability"
CAPABILITY = "capability.openshift.io/name"
FEATURE_SET = "release.openshift.io/feature-set"
FEATURE_SETS = frozenset({"Default", "OKD", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade", "CustomNoUpgrade"})
BOOTSTRAP = "release.openshift.io/bootstrap-required"
SNAPSHOT = "0.0.1-snapshot"
CAPABILITIES = ("Console", "Ingress")
DELETE = "release.openshift.io/delete"
#: What no payload may delete: without these, no version operator can go on.
NEEDED = {
    *(("Namespace", f"openshift-{name}") for name in ("cluster-version", "config", "config-managed", "etcd")),
    *(
        ("CustomResourceDefinition", f"{name}.config.openshift.io")
        for name in ("clusterversions", "clusteroperators", "infrastructures")
    ),
}

_FILE = re.compile(r"^0000_(\d\d)_([a-z0-9]+(?:-[a-z0-9]+)*)_")
_TEMPLATE = re.compile(r"\{\{\s*\.(\w+)(?:\.(\S+?))?\s*\}\}")
_DOCUMENTS = re.compile(r"^---[ \t]*$", re.MULTILINE)
_SEMVER = re.compile(r"^(?=.{5,200}$)[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$")


@dataclass(frozen=True)
class Images:
    """image-references: the release's version and its component images by tag."""

    version: str
    tags: Mapping[str, str]

    def __getitem__(self, tag: str) -> str:
        try:
            return self.tags[tag]
        except KeyError:
            raise UnknownTag(tag, self.version) from None


@dataclass(frozen=True)
class Manifest:
    """One object of the payload and where it comes from; ``level`` and ``component`` order it."""

    source: str
    level: int
    component: str
    object: Object = field(repr=False)  # it may be a Secret

    @property
    def name(self) -> str:
        """``<kind> "<namespace>/<name>"``, as messages say it."""
        meta = self.object["metadata"]
        where = f"{meta['namespace']}/" if meta.get("namespace") else ""
        return f'{self.object["kind"].lower()} "{where}{meta["name"]}"'

    def annotated(self, key: str) -> bool:
        """Return whether an annotation says "true"."""
        return (self.object["metadata"].get("annotations") or {}).get(key) == "true"


def parse_images(text: str) -> Images:
    """Read image-references. Raises PayloadError."""
    try:
        stream = json.loads(text)
        if (stream["kind"], stream["apiVersion"]) != ("ImageStream", "image.openshift.io/v1"):
            raise PayloadError(f"image-references is a {stream['apiVersion']} {stream['kind']}, not an ImageStream")
        tags = {
            str(t["name"]): str(t["from"]["name"]) for t in stream["spec"]["tags"] if t["from"]["kind"] == "DockerImage"
        }
        return Images(str(stream["metadata"]["name"]), tags)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PayloadError(f"image-references is malformed ({type(error).__name__}: {error})") from error


def load_images(root: Path) -> Images:
    """image-references and release-metadata of the payload at ``root``, checked against each other."""
    directory = root / "release-manifests"
    for name in ("image-references", "release-metadata"):
        if not (directory / name).is_file():
            raise PayloadError(f"{directory} did not contain a {name} file")
    images = parse_images((directory / "image-references").read_text(errors="replace"))
    try:
        metadata = json.loads((directory / "release-metadata").read_text())
        kind, version = metadata["kind"], str(metadata["version"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PayloadError(f"release-metadata is malformed ({error})") from error
    if kind != "cincinnati-metadata-v0":
        raise PayloadError(f"release-metadata has the kind {kind!r}")
    if not _SEMVER.fullmatch(version) or version != images.version:
        raise PayloadError(f"release-metadata says version {version!r}, image-references {images.version!r}")
    return images


def included(obj: Object, capabilities: Iterable[str] = CAPABILITIES) -> bool:
    """Return whether the annotations admit this manifest on this cluster (§1.3)."""
    notes = obj["metadata"].get("annotations") or {}
    if notes.get(PROFILE) != "true":
        return False
    if FEATURE_SET in notes:
        sets = set(str(notes[FEATURE_SET]).split(","))
        if "Default" not in sets or not sets <= FEATURE_SETS:
            return False
    enabled = set(capabilities)
    return all(name in enabled for name in str(notes.get(CAPABILITY, "")).split("+") if name)


def read_objects(text: str, source: str) -> list[Object]:
    """Return the objects of a YAML (or JSON) file; a List is unpacked. Raises ManifestError."""
    try:
        documents = [d for d in yamltext.load_all(text) if d]
    except YamlError as error:
        raise ManifestError(f"{source}: not YAML ({error})") from error
    objects: list[Object] = []
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            items = document.get("items") or []
            objects += items if isinstance(items, list) else [items]
        else:
            objects.append(document)
    for obj in objects:
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        names = (meta.get("name"), obj.get("kind"), obj.get("apiVersion")) if isinstance(meta, dict) else ()
        if not isinstance(meta, dict) or not all(name and isinstance(name, str) for name in names):
            raise ManifestError(f"{source}: an object without apiVersion, kind or metadata.name")
        if not isinstance(meta.get("annotations") or {}, dict) or not isinstance(meta.get("namespace") or "", str):
            raise ManifestError(f"{source}: {obj['kind']} {meta['name']}: malformed metadata")
    return objects


def cluster_values(config: InstallConfig, apps_domain: str) -> dict[str, str]:
    """Return the values of {{.Cluster.<name>}}: what manifests need to know of the cluster that they go into."""
    return {
        "APIInternalHost": f"api-int.{config.domain}",
        "AppsDomain": apps_domain,
        "ClusterNetworks": ",".join(cidr for cidr, _ in config.cluster_networks),
        "ConsoleReplicas": str(min(config.compute_replicas or config.control_plane_replicas, 2)),
        "DNSAddress": config.dns_ip,
        "DualStack": str(config.dual_stack).lower(),
        "IPFamilyPolicy": "PreferDualStack" if config.dual_stack else "null",  # which single-stack API servers drop
        "PodNetworks": ",".join(cidr for cidr, _ in config.pod_networks),
        "ServiceNetworks": ",".join(config.service_networks),
    }


def fill(text: str, images: Images, release_image: str, cluster: Mapping[str, str] | None = None) -> str:
    """Replace {{.ReleaseImage}}, {{.ClusterProfile}}, {{.Images.<tag>}}, {{.Cluster.<name>}} and the snapshot version;
    without ``cluster``, documents that need values of it are left out. Raises ManifestError."""
    if cluster is None:
        text = "---".join(d for d in _DOCUMENTS.split(text) if "Cluster" not in {m[1] for m in _TEMPLATE.finditer(d)})

    def value(match: re.Match[str]) -> str:
        key, name = match.group(1), match.group(2)
        if key == "Images" and name:
            return images[name]
        if key == "Cluster" and cluster is not None and name in cluster:
            return cluster[name]
        values = {"ReleaseImage": release_image, "ClusterProfile": "self-managed-high-availability"}
        if key not in values:
            raise ManifestError(f"unknown placeholder {match.group(0)}")
        return values[key]

    return _TEMPLATE.sub(value, text).replace(SNAPSHOT, images.version)


def load_manifests(root: Path, release_image: str, cluster: Mapping[str, str] | None = None) -> list[Manifest]:
    """All admitted manifests of the payload, in the order in which they are applied (§1.3); without the values of
    ``cluster``, which a bootstrap has not, those that need none.

    Raises PayloadError or ManifestError.
    """
    images = load_images(root)
    manifests: list[Manifest] = []
    for directory in (root / "manifests", root / "release-manifests"):
        if not directory.is_dir():
            raise PayloadError(f"the payload has no directory {directory}")
        for path in directory.iterdir():
            if path.suffix not in (".yaml", ".yml", ".json"):
                continue
            match = _FILE.match(path.name)
            level, component = (int(match.group(1)), match.group(2)) if match else (50, path.stem)
            try:
                text = path.read_text()
            except UnicodeDecodeError as error:
                raise ManifestError(f"{path.name}: is not UTF-8 ({error})") from error
            objects = read_objects(fill(text, images, release_image, cluster), path.name)
            manifests += [Manifest(path.name, level, component, obj) for obj in objects if included(obj)]
    for manifest in manifests:
        if manifest.annotated(DELETE) and (manifest.object["kind"], manifest.object["metadata"]["name"]) in NEEDED:
            raise ManifestError(f"{manifest.source}: deletes {manifest.name}, which the version operator needs")
    return sorted(manifests, key=lambda m: (m.level, m.component, m.source))
