"""A must-gather of an installed cluster, by its API alone (reference/backup.md §4): `node0 gather --kubeconfig FILE`.

The layout is that of `oc adm must-gather`, so that programs which read those read this. No pod is started for it: a
cluster that can run no new pod is looked into as well. Of Secrets there are names, keys and sizes alone; all else goes
through the redactor, which knows the Secrets' values besides. Users' namespaces are left out.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import logging
import re
import secrets
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installer.common.formats import yamltext
from installer.common.redact import Redactor
from installer.common.redact.names import distinctive
from installer.common.secretfiles import private_directory, write_private
from installer.errors import ConfigError, InstallerError
from installer.observe.errors import KubeError
from installer.observe.kube import Kube
from installer.observe.service import Reach

log = logging.getLogger("installer.gather")

Json = dict[str, Any]
#: As `oc adm must-gather` ends by itself, in seconds; of one request; and bytes: of all files, of a log, of an answer,
#: of all answers that make a list.
SECONDS = 600.0
REQUEST_SECONDS = 30.0
LARGEST = 1 << 30
LARGEST_LOG = 16 << 20
LARGEST_ANSWER = 64 << 20
LARGEST_LIST = 256 << 20
LOG_LINES = 100_000
PAGE = 500
NAMESPACES = re.compile(r"default|kube-[a-z0-9-]+|openshift(-[a-z0-9-]+)?|assisted-installer")
#: What would be a file's name; RBAC's objects have colons in theirs.
NAME = re.compile(r"(?!\.{1,2}\Z)[\w.:@-]{1,253}", re.ASCII)
#: The longest name that leaves room for `.yaml` within a file system's 255 bytes.
LONGEST_NAME = 250
#: The same objects under another name, what is no object of its own, or made up at each look.
LEFT_OUT = {("extensions", "ingresses"), ("events.k8s.io", "events"), ("core", "componentstatuses")}
GROUPS_LEFT_OUT = {"metrics.k8s.io"}
NODE_PARTS = ("healthz", "configz", "stats/summary")


class LimitReached(InstallerError):
    """The gathering is ended before its end; the text says by which limit."""


@dataclass(frozen=True)
class Kind:
    """A resource of the API: its group, ``core`` for the one without a name, and its path below the server."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return self.version if self.group == "core" else f"{self.group}/{self.version}"

    @property
    def path(self) -> str:
        """Path of the list of all its objects."""
        root = "/api" if self.group == "core" else "/apis"
        return f"{root}/{self.api_version}/{self.resource}"


def kinds(group: str, listed: Json) -> list[Kind]:
    """Return what a group's discovery document says can be listed."""
    version = str(listed.get("groupVersion", "")).rpartition("/")[2]
    return [
        Kind(group, version, str(entry.get("name")), str(entry.get("kind")), bool(entry.get("namespaced")))
        for entry in map(_mapping, listed.get("resources") or ())
        if "list" in (entry.get("verbs") or ()) and (group, entry.get("name")) not in LEFT_OUT
    ]


def file_name(name: str) -> str:
    """Return an object's name as that of a file; one that is too long is cut, and stays unlike others."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 17]}-{digest}"


def without_data(secret: Json) -> Json:
    """Return a Secret with the size of each value in its place, and without annotations, which may repeat them."""
    meta = {key: value for key, value in (secret.get("metadata") or {}).items() if key != "annotations"}
    sizes = {key: f"{len(_decoded(value))} bytes long" for key, value in _mapping(secret.get("data")).items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": secret.get("type"), "data": sizes}


def secret_values(items: Sequence[Json]) -> Iterator[str]:
    """Yield what must not be found anywhere else: values of Secrets that are texts, certificates aside."""
    for item in items:
        for key, value in _mapping(item.get("data")).items():
            text = _decoded(value).decode(errors="replace").strip()
            if key != "namespace" and "-----BEGIN CERTIFICATE-----" not in text[:80]:
                yield text


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(str(value))
    except (binascii.Error, ValueError):
        return b""


def pod_logs(pod: Json) -> Iterator[tuple[str, bool]]:
    """Yield the logs that a pod's containers have: container, and whether it is the one of the instance before."""
    status = pod.get("status") or {}
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        if "running" in state or "terminated" in state or "terminated" in (container.get("lastState") or {}):
            yield str(container["name"]), False
        if "terminated" in (container.get("lastState") or {}):
            yield str(container["name"]), True


def is_ready(node: Json) -> bool:
    """Return whether a node's kubelet reports."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


class MustGather:
    """One gathering into ``folder``; ``notes``: what the user saw of it. Ends by LimitReached after ``seconds``."""

    def __init__(self, kube: Kube, folder: Path, redactor: Redactor, *, seconds: float = SECONDS) -> None:
        self._kube, self._folder, self._redactor = kube, folder, redactor
        self._seconds, self._end = seconds, time.monotonic() + seconds
        self._bytes = self._received = 0
        self._silent: set[str] = set()
        self.notes: list[str] = []
        self.files = 0

    def note(self, text: str, *, bad: bool = False) -> None:
        """Write a line for the user, and for the reader of the result."""
        shown = self._redactor.text(text)
        self.notes.append(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {shown}")
        (log.warning if bad else log.info)("%s", shown)

    def write(self, name: str, data: bytes) -> None:
        """Write a file. Raises LimitReached before there would be too much."""
        self._bytes += len(data)
        if self._bytes > LARGEST:
            raise LimitReached(f"more than {LARGEST >> 20} MiB: the rest is left out")
        write_private(self._folder / name, data)
        self.files += 1

    def _read(self, path: str, query: Sequence[tuple[str, str]] = (), most: int = LARGEST_ANSWER) -> bytes:
        left = self._end - time.monotonic()
        if left <= 0:
            raise LimitReached(f"not done within {self._seconds:.0f} s: the rest is left out")
        data = self._kube.read(path, query, seconds=min(REQUEST_SECONDS, left), most=most)
        self._received += len(data)
        return data

    def _json(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Json:
        try:
            answer = json.loads(self._read(path, query))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise KubeError(f"GET {path}: the answer is no object")
        return answer

    def _yaml(self, name: str, document: Json) -> None:
        self.write(name, yamltext.dump(document).encode())

    @contextlib.contextmanager
    def _noting(self, subject: str) -> Iterator[None]:
        """Note that a subject could not be had, or is not as the API describes it, and go on after the block."""
        try:
            yield
        except KubeError as error:
            self.note(f"{subject}: {error}", bad=True)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            self.note(f"{subject}: an answer of another shape than the API's ({type(error).__name__})", bad=True)

    def everything(self) -> None:
        """Gather all there is. Raises LimitReached, and KubeError where nothing could be had."""
        found = self._discover()
        secret_kind = next((kind for kind in found if (kind.group, kind.resource) == ("core", "secrets")), None)
        if secret_kind is not None:
            self._learn(secret_kind)
        nodes: list[Json] = []
        pods: list[Json] = []
        for kind in found:
            with self._noting(f"{kind.resource}.{kind.group}"):
                items = list(self._items(kind))
                if (kind.group, kind.resource) == ("core", "nodes"):
                    nodes = items
                elif (kind.group, kind.resource) == ("core", "pods"):
                    pods = items
                self._objects(kind, items)
        self.note(f"{self.files} files of objects")
        for node in nodes:
            name = str(node["metadata"]["name"])
            with self._noting(f"node {name}"):
                if not is_ready(node):
                    self._silent.add(name)
                self._node(name)
        for namespace in sorted({str(pod["metadata"]["namespace"]) for pod in pods}):
            of_namespace = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
            self.note(f"Gathering data for ns/{namespace}: {len(of_namespace)} pods")
            for pod in of_namespace:
                with self._noting(f"pod {namespace}/{pod['metadata']['name']}"):
                    self._pod(namespace, pod)

    def _discover(self) -> list[Kind]:
        found = kinds("core", self._json("/api/v1"))
        for group in self._json("/apis").get("groups") or ():
            with self._noting("a group of the API"):
                name, version = str(group["name"]), str(group["preferredVersion"]["groupVersion"])
                if name not in GROUPS_LEFT_OUT:
                    with self._noting(name):
                        found += kinds(name, self._json(f"/apis/{version}"))
        return [kind for kind in found if NAME.fullmatch(kind.resource) and NAME.fullmatch(kind.group)]

    def _learn(self, kind: Kind) -> None:
        values: list[str] = []
        with self._noting("secrets"):
            values = list(secret_values(list(self._items(kind))))
        # Documents hold secrets, and much that is none.
        documents = [text for text in values if "\n" in text or text.startswith("{")]
        self._redactor.know(text for text in set(values) - set(documents) if distinctive(text))
        for text in documents:
            self._redactor.learn(text)

    def _items(self, kind: Kind) -> Iterator[Json]:
        """Yield the objects of a kind that are gathered, with their kind, which lists leave out."""
        going_on, before = "", self._received
        while True:
            query = [("limit", str(PAGE)), *([("continue", going_on)] if going_on else [])]
            listed = self._json(kind.path, query)
            if self._received - before > LARGEST_LIST:
                raise KubeError(f"GET {kind.path}: more than {LARGEST_LIST >> 20} MiB")
            for item in listed.get("items") or ():
                meta = _mapping(_mapping(item).get("metadata"))
                namespace = str(meta.get("namespace") or "")
                if not NAME.fullmatch(str(meta.get("name", ""))) or (kind.namespaced and not _wanted(namespace)):
                    continue
                meta.pop("managedFields", None)
                yield {"apiVersion": kind.api_version, "kind": kind.kind, **item}
            going_on = str(_mapping(listed.get("metadata")).get("continue") or "")
            if not going_on:
                return

    def _objects(self, kind: Kind, items: Sequence[Json]) -> None:
        """Write objects: those of the cluster in a file each, those of a namespace as a list."""
        lists: dict[str, list[Json]] = defaultdict(list)
        for item in items:
            # The redactor would take even the sizes for secrets.
            secret = (kind.group, kind.resource) == ("core", "secrets")
            clean = without_data(item) if secret else self._redactor.value(item)
            name = str(item["metadata"]["name"])
            if kind.namespaced:
                lists[str(item["metadata"]["namespace"])].append(clean)
            elif kind.resource != "namespaces":
                self._yaml(f"cluster-scoped-resources/{kind.group}/{kind.resource}/{file_name(name)}.yaml", clean)
            elif _wanted(name):
                self._yaml(f"namespaces/{name}/{name}.yaml", clean)
        for namespace, content in lists.items():
            whole = {"apiVersion": kind.api_version, "kind": f"{kind.kind}List", "items": content}
            self._yaml(f"namespaces/{namespace}/{kind.group}/{kind.resource}.yaml", whole)

    def _node(self, node: str) -> None:
        if node in self._silent:
            self.note(
                f"node {node}: not Ready: nothing is asked of its kubelet, logs of its pods are left out", bad=True
            )
            return
        for part in NODE_PARTS:
            try:
                data = self._read(f"/api/v1/nodes/{node}/proxy/{part}")
            except KubeError as error:
                self.note(f"node {node}: {error}", bad=True)
                self._lost(node, error)
                continue
            text = self._redactor.text(data.decode(errors="replace"))
            self.write(f"nodes/{node}/{part.replace('/', '_')}", text.encode())

    def _pod(self, namespace: str, pod: Json) -> None:
        name, node = str(pod["metadata"]["name"]), str((pod.get("spec") or {}).get("nodeName") or "")
        folder = f"namespaces/{namespace}/pods/{file_name(name)}"
        self._yaml(f"{folder}/{file_name(name)}.yaml", self._redactor.value(pod))
        for container, previous in pod_logs(pod):
            if node in self._silent or not NAME.fullmatch(container):
                continue
            query = [("container", container), ("timestamps", "true"), ("tailLines", str(LOG_LINES))]
            query += [("previous", "true")] if previous else []
            try:
                data = self._read(f"/api/v1/namespaces/{namespace}/pods/{name}/log", query, LARGEST_LOG)
            except KubeError as error:
                self.note(f"pod {namespace}/{name}, container {container}: {error}", bad=True)
                self._lost(node, error)
                continue
            file = "previous.log" if previous else "current.log"
            clean = self._redactor.text(data.decode(errors="replace"))
            self.write(f"{folder}/{container}/{container}/logs/{file}", clean.encode())

    def _lost(self, node: str, error: KubeError) -> None:
        """Ask no more of a node that let a request end without an answer: each would take as long."""
        if error.status == 0 or error.status >= 502:
            self._silent.add(node)
            self.note(f"node {node} does not answer: no more is asked of it", bad=True)


def _wanted(namespace: str) -> bool:
    return bool(NAMESPACES.fullmatch(namespace))


def refuse(kubeconfig: Path, target: Path) -> None:
    """Raise ConfigError, all problems at once, for paths that cannot be used."""
    problems = []
    if not kubeconfig.is_file():
        problems.append(f"--kubeconfig {kubeconfig}: no such file")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        problems.append(f"--dest-dir {target}: must be an empty directory or not exist")
    if problems:
        raise ConfigError("; ".join(problems))


def run(kubeconfig: Path, destination: Path | None = None, *, seconds: float = SECONDS) -> int:
    """Gather into ``destination``, or must-gather.local.N; 0, or 1 when it was ended by a limit.

    Raises InstallerError when the cluster does not answer or nothing can be written; then nothing is left.
    """
    target = (destination or Path(f"must-gather.local.{secrets.randbelow(10**16)}")).resolve()
    refuse(kubeconfig, target)
    redactor = Redactor()
    redactor.learn(kubeconfig.read_text(errors="replace"))
    kube = Kube(kubeconfig, Reach())
    code, started = 0, time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime())
    try:
        kube.check_alive()
        target.parent.mkdir(parents=True, exist_ok=True)
        with private_directory("node0-must-gather-", target.parent) as work:
            folder = work / "gathered"
            gathering = MustGather(kube, folder, redactor, seconds=seconds)
            try:
                gathering.everything()
            except LimitReached as error:
                gathering.note(str(error), bad=True)
                code = 1
            ended = time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime())
            write_private(folder / "timestamp", f"{started}\n{ended}\n")
            write_private(folder / "version", "node0/gather\n")
            write_private(folder / "must-gather.logs", "".join(f"{line}\n" for line in gathering.notes))
            if target.exists():
                for entry in list(folder.iterdir()):
                    shutil.move(entry, target)
            else:
                folder.rename(target)
    except OSError as error:
        raise InstallerError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        kube.close()
    log.info("%d files are in %s", gathering.files, target)
    return code
