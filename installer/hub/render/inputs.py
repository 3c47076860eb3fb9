"""Documents of the two forms, read and checked, as clusters of one form: that of ClusterInstance's spec."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from installer.common.formats import YamlError, yamltext
from installer.common.inputs import read_text
from installer.hub.kube.kinds import Json
from installer.hub.render import schema

_API = {"ran.openshift.io/v1": "SiteConfig", "ran.openshift.io/v2": "SiteConfig"}
_API |= {"siteconfig.open-cluster-management.io/v1alpha1": "ClusterInstance"}
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True, "type": "object"}


@dataclass
class Cluster:
    """A cluster: ClusterInstance's spec with all defaults, its place in the input, and its form."""

    spec: Json
    path: str
    form: str
    api_version: str
    manifests: dict[str, str] = field(default_factory=dict)


@dataclass
class Read:
    """Results of reading a file; messages begin with a field."""

    clusters: list[Cluster] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read(file: Path) -> Read:
    """Read a file of SiteConfigs and ClusterInstances."""
    found = Read()
    try:
        documents = yamltext.load_all(read_text(file))
    except OSError as error:
        return Read(problems=[f"cannot be read: {error.strerror or error}"])
    except YamlError as error:
        return Read(problems=[f"no YAML: {error}"])
    if not documents:
        found.problems.append("has no document")
    for number, document in enumerate(documents, 1):
        place = f"document {number}: " if len(documents) > 1 else ""
        read_document(document, place, file.parent, found)
    return found


def read_document(document: Any, place: str, folder: Path, found: Read) -> None:
    """Add a document's clusters, problems and warnings; its files are in `folder`, `place` begins its messages."""
    document = schema.without_nulls(document) if isinstance(document, dict) else {}
    api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    if _API.get(api_version) != kind:
        known = ", ".join(f"{name} of {version}" for version, name in _API.items())
        found.problems.append(f"{place}kind: only {known} are rendered")
        return
    names = {"apiVersion": {}, "kind": {}, "metadata": _ANYTHING, "status": {}}
    spec = _ANYTHING if kind == "ClusterInstance" else schema.table("siteconfig")["site"] | {"type": "object"}
    whole = {"type": "object", "required": ["metadata", "spec"], "properties": names | {"spec": spec}}
    wrong = [place + line.removeprefix(".") for line in schema.problems(document, whole, "")]
    found.problems += wrong
    site = document.get("spec")
    if not isinstance(site, dict):
        return
    items: list[tuple[str, Any]] = [("spec", site)]
    if kind == "SiteConfig":
        found.warnings += [place + line for line in schema.left_out(site, spec, "spec")]
        clusters = site.get("clusters")
        items = [
            (f"spec.clusters[{number}]", item)
            for number, item in enumerate(clusters if isinstance(clusters, list) else [])
            if isinstance(item, dict)
        ]
    for path, item in items:
        more: list[str] = []
        if cluster := _cluster(item, place + path, kind, found):
            cluster.api_version = api_version
            if kind == "SiteConfig" and not wrong:
                found.problems += (more := list(_from_site(cluster, site, folder)))
            found.clusters += [] if wrong or more else [cluster]


def _cluster(value: Json, path: str, kind: str, found: Read) -> Cluster | None:
    """Check a cluster and its nodes; None if something is wrong, which is in `found` then."""
    common, own = schema.table("common"), schema.table(kind.lower())
    body = {"type": "object", "required": own["spec"]["required"]}
    body["properties"] = common["cluster"] | own["spec"]["cluster"]
    node_schema = {"type": "object", **own["spec"]["node"]}
    node_schema["properties"] = common["node"] | node_schema["properties"]
    found_here = list(schema.problems(value, body, path))
    found.warnings += schema.left_out(value, body, path)
    nodes = value.get("nodes") if isinstance(value.get("nodes"), list) else []
    for number, node in enumerate(nodes or []):
        if isinstance(node, dict):
            found_here += schema.problems(node, node_schema, f"{path}.nodes[{number}]")
            found.warnings += schema.left_out(node, node_schema, f"{path}.nodes[{number}]")
    if not found_here:
        spec = schema.defaulted(value, body)
        spec["nodes"] = [schema.defaulted(node, node_schema) for node in value["nodes"]]
        found_here += [f"{path}.{line}" for line in _roles(spec, kind)]
        if kind == "ClusterInstance":
            found_here += [f"{path}.{line}" for line in _templates(spec)]
    found.problems += found_here
    return None if found_here else Cluster(spec, path, kind, "")


def _roles(spec: Json, kind: str) -> Iterator[str]:
    roles = [node["role"] for node in spec["nodes"]]
    masters, arbiters = roles.count("master"), roles.count("arbiter")
    shape = spec.get("clusterType", "")
    if kind == "SiteConfig":
        if masters not in (1, 3):
            yield f"nodes: {masters} of role master: must be 1 or 3"
    elif shape == "HostedControlPlane":
        yield f"clusterType: {shape}: hosted control planes are not offered"
    elif shape == "SNO" and masters != 1:
        yield f"nodes: {masters} of role master: must be 1 for clusterType {shape}"
    elif shape == "HighlyAvailableArbiter" and (masters < 2 or not arbiters):
        yield f"nodes: {masters} of role master, {arbiters} of role arbiter: must be 2 and 1 for clusterType {shape}"
    elif arbiters and shape != "HighlyAvailableArbiter":
        yield "nodes: arbiters need clusterType HighlyAvailableArbiter"


def _templates(spec: Json) -> Iterator[str]:
    for number, node in enumerate([spec, *spec["nodes"]], -1):
        place, known = (f"nodes[{number}].", "ai-node-templates-v1") if number >= 0 else ("", "ai-cluster-templates-v1")
        for reference in node["templateRefs"]:
            if reference["name"] != known:
                yield f"{place}templateRefs: {reference['name']!r}: only {known} is rendered"


def _from_site(cluster: Cluster, site: Json, folder: Path) -> Iterator[str]:
    """Complete a SiteConfig's cluster with what its site says, in ClusterInstance's form; yields what is wrong."""
    spec = cluster.spec
    spec |= {name: site[name] for name in ("baseDomain", "pullSecretRef")} | {
        "sshPublicKey": site.get("sshPublicKey", "")
    }
    spec["clusterType"] = "SNO" if [node["role"] for node in spec["nodes"]].count("master") == 1 else ""
    spec["serviceNetwork"] = [{"cidr": cidr} for cidr in spec.get("serviceNetwork", [])]
    if not (image := spec.get("clusterImageSetNameRef") or site.get("clusterImageSetNameRef")):
        yield f"{cluster.path}.clusterImageSetNameRef: is missing, here and in spec"
    spec["clusterImageSetNameRef"] = image
    # The nearest annotations of a kind count, and those alone.
    added = [level.get("crAnnotations", {}).get("add", {}) for level in (site, spec)]
    spec["extraAnnotations"] = added[0] | added[1]
    spec["suppressedManifests"] = spec.get("crSuppression", [])
    for node in spec["nodes"]:
        node["extraAnnotations"] = node.get("crAnnotations", {}).get("add", {})
        node["suppressedManifests"] = node.get("crSuppression", [])
    extra = spec.get("extraManifests", {}).get("searchPaths", [])
    for name in [*extra, *([spec["extraManifestPath"]] if spec.get("extraManifestPath") else [])]:
        try:
            cluster.manifests |= _manifests(folder, name)
        except (OSError, YamlError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            yield f"{cluster.path}.extraManifests: {name!r}: {reason}"


def _manifests(folder: Path, name: str) -> dict[str, str]:
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise OSError(0, "must be in the folder of the SiteConfig")
    files = [file for file in sorted(place.iterdir()) if file.is_file() and not file.name.startswith(".")]
    texts = {file.name: read_text(file) for file in files}
    for text in texts.values():
        yamltext.load_all(text)
    return texts
