"""`node0 hub render`: files in, YAML on standard output or a folder for `kubectl apply -k` out."""

from __future__ import annotations

import logging
from pathlib import Path

from installer.common.formats import YamlError, yamltext
from installer.errors import EXIT_FATAL, ConfigError, StateError
from installer.files import write_asset
from installer.hub.kube.kinds import Json
from installer.hub.render.inputs import Cluster, read
from installer.hub.render.resources import LEFT_OUT, problems, resources

log = logging.getLogger(__name__)
KUSTOMIZATION = "kustomization.yaml"
_MARK = "# Made by node0 hub render, which replaces it.\n"


def run(files: list[Path], output: Path | None) -> int:
    """Render files; returns the exit code. Problems of all of them are logged, a line each. Raises ConfigError."""
    clusters: list[Cluster] = []
    wrong: list[str] = []
    warnings: list[str] = []
    for file in files:
        content = read(file)
        wrong += [f"{file}: {line}" for line in content.problems]
        warnings += [f"{file}: {line}" for line in content.warnings]
        forms = sorted({cluster.form for cluster in content.clusters})
        warnings += [f"{file}: left out, though made of a {form} elsewhere: {LEFT_OUT[form]}" for form in forms]
        for cluster in content.clusters:
            cluster.path = f"{file}: {cluster.path}"
        clusters += content.clusters
    found = [resource for cluster in clusters for resource in resources(cluster)]
    wrong += problems(found)
    for line in wrong:
        log.critical("%s", line)
    if wrong:
        return EXIT_FATAL
    objects = [resource.obj for resource in found]
    if output is None:
        print("---\n".join(yamltext.dump(obj) for obj in objects), end="")
    else:
        _write(objects, output)
    for line in [*warnings, *_needs(clusters)]:
        log.warning("%s", line)
    return 0


def _needs(clusters: list[Cluster]) -> list[str]:
    """Return what has to be in the hub beside the resources, a line a cluster."""
    lines = []
    for cluster in clusters:
        spec, name = cluster.spec, cluster.spec["clusterName"]
        hosts = [(node.get("hostRef", {}).get("namespace", name), node) for node in spec["nodes"]]
        secrets = {f"{place}/{spec['pullSecretRef']['name']}" for place in (name, *(place for place, _ in hosts))}
        secrets |= {f"{place}/{node['bmcCredentialsName']['name']}" for place, node in hosts}
        wanted = [f"ClusterImageSet {spec['clusterImageSetNameRef']}", *(f"Secret {key}" for key in sorted(secrets))]
        if cluster.form == "ClusterInstance":
            wanted += [f"Namespace {place}" for place in sorted({name, *(place for place, _ in hosts)})]
        wanted += [f"ConfigMap {name}/{item['name']}" for item in spec.get("extraManifestsRefs", [])]
        lines.append(f"{cluster.path}: the hub needs as well: {', '.join(wanted)}")
    return lines


def _write(objects: list[Json], folder: Path) -> None:
    """Write the objects and a kustomization; an earlier render's files go. Raises ConfigError and StateError."""
    texts = {_file_name(obj): _MARK + yamltext.dump(obj) for obj in objects}
    earlier = _earlier(folder)
    for name in sorted(earlier | texts.keys()):
        if Path(name).name != name or not _is_own(folder / name):
            raise ConfigError(f"--output: {folder / name}: is not of a render: move it, or render into another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"failed to create {folder}: {error.strerror or error}") from error
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(texts),
    }
    for name, text in [*texts.items(), (KUSTOMIZATION, _MARK + yamltext.dump(kustomization))]:
        write_asset(folder / name, text.encode(), 0o644)
    for name in earlier - texts.keys():
        (folder / name).unlink(missing_ok=True)


def _file_name(obj: Json) -> str:
    metadata = obj["metadata"]
    return "_".join([metadata.get("namespace") or metadata["name"], obj["kind"].lower(), metadata["name"]]) + ".yaml"


def _is_own(path: Path) -> bool:
    """Return whether a render made this file, or there is none."""
    if path.is_symlink():
        return False
    try:
        return path.read_bytes().startswith(_MARK.encode())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _earlier(folder: Path) -> set[str]:
    """Return the names of an earlier render's files. Raises ConfigError if the folder holds something else."""
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return set()
        text = (folder / KUSTOMIZATION).read_text()
        names = yamltext.load(text)["resources"] if text.startswith(_MARK) else []
        if text.startswith(_MARK):
            return set(map(str, names))
    except (OSError, YamlError, KeyError, TypeError, UnicodeDecodeError):
        pass
    raise ConfigError(f"--output: {folder}: must be new, empty, or the folder of an earlier render")
