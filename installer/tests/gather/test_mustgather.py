"""`node0 gather` against an API that answers from a table, over HTTP."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from installer.common.formats import yamltext
from installer.errors import InstallerError
from installer.gather import mustgather

TOKEN = "Xq9-hidden-Kt4"
VERSION = [
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
]
OTHER = "rotor88-balloon-Vx"


def obj(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name} | ({"namespace": namespace} if namespace else {}), **more}


def listed(*names: str, group: str = "v1", namespaced: bool = True) -> dict[str, Any]:
    kinds = [{"name": n, "kind": n.title()[:-1], "namespaced": namespaced, "verbs": ["get", "list"]} for n in names]
    return {"groupVersion": group, "resources": kinds}


def pod(name: str, node: str, restarts: int = 0) -> dict[str, Any]:
    last = {"lastState": {"terminated": {"exitCode": 1}}} if restarts else {}
    statuses = [{"name": "main", "state": {"running": {}}, **last}]
    return obj(name, "openshift-etcd", spec={"nodeName": node}, status={"containerStatuses": statuses})


def node(name: str, ready: str) -> dict[str, Any]:
    return obj(name, status={"conditions": [{"type": "Ready", "status": ready}]})


def table() -> dict[str, Any]:
    core = listed("secrets", "pods", "configmaps")
    core["resources"] += listed("nodes", "namespaces", namespaced=False)["resources"]
    secret = obj("login", "openshift-etcd", data={"pass": base64.b64encode(OTHER.encode()).decode()})
    secret["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": OTHER}
    notes = obj("notes", "openshift-etcd", data={"text": f"said {OTHER} to 192.0.2.1", "plain": "stays"})
    groups = [{"name": "config.openshift.io", "preferredVersion": {"groupVersion": "config.openshift.io/v1"}}]
    return {
        "/version/": dict.fromkeys(VERSION, ""),
        "/api/v1": core,
        "/apis": {"groups": groups},
        "/apis/config.openshift.io/v1": listed("infrastructures", group="config.openshift.io/v1", namespaced=False),
        "/apis/config.openshift.io/v1/infrastructures": {"items": [obj("cluster"), obj("../../escaped")]},
        "/api/v1/secrets": {"items": [secret]},
        "/api/v1/configmaps": {"items": [notes, obj("theirs", "users-own"), obj("escaped", "openshift-/../../..")]},
        "/api/v1/namespaces": {"items": [obj("openshift-etcd"), obj("users-own")]},
        "/api/v1/nodes": {"items": [node("up", "True"), node("down", "Unknown")]},
        "/api/v1/pods": {"items": [pod("etcd-up", "up", restarts=1), pod("etcd-down", "down")]},
        "/api/v1/nodes/up/proxy/healthz": "ok",
        "/api/v1/namespaces/openshift-etcd/pods/etcd-up/log": f"client sent {OTHER}\nthe last line\n",
    }


@pytest.fixture
def api(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Provide the table that the server of tmp_path/kubeconfig answers from, and below "asked" what it was asked."""
    answers: dict[str, Any] = {**table(), "asked": []}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers["asked"].append(self.path)
            answer = answers.get(urlsplit(self.path).path)
            body = (answer if isinstance(answer, str) else json.dumps(answer or {"message": "not here"})).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield answers
        server.shutdown()


def gathered(tmp_path: Path, **options: Any) -> tuple[int, dict[str, str]]:
    code = mustgather.run(tmp_path / "kubeconfig", tmp_path / "out", **options)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    return code, {str(path.relative_to(tmp_path / "out")): path.read_text() for path in files}


def test_the_layout_is_must_gathers_and_no_secret_is_anywhere(api: dict[str, Any], tmp_path: Path) -> None:
    code, files = gathered(tmp_path)
    assert code == 0
    logs = "namespaces/openshift-etcd/pods/etcd-up/main/main/logs"
    assert set(files) == {
        "cluster-scoped-resources/config.openshift.io/infrastructures/cluster.yaml",
        *(f"cluster-scoped-resources/core/nodes/{name}.yaml" for name in ("up", "down")),
        "namespaces/openshift-etcd/openshift-etcd.yaml",
        *(f"namespaces/openshift-etcd/core/{kind}.yaml" for kind in ("secrets", "configmaps", "pods")),
        *(f"namespaces/openshift-etcd/pods/{name}/{name}.yaml" for name in ("etcd-up", "etcd-down")),
        *(f"{logs}/{name}.log" for name in ("current", "previous")),
        "nodes/up/healthz",
        *("timestamp", "version", "must-gather.logs"),
    }
    everything = "\n".join(files.values())
    for secret in (OTHER, TOKEN):
        assert secret not in everything
        assert base64.b64encode(secret.encode()).decode() not in everything
    assert "the last line" in files[f"{logs}/previous.log"]
    maps = yamltext.load(files["namespaces/openshift-etcd/core/configmaps.yaml"])
    assert [(m["kind"], m["data"]["plain"]) for m in maps["items"]] == [("Configmap", "stays")]
    secrets = yamltext.load(files["namespaces/openshift-etcd/core/secrets.yaml"])
    assert secrets["items"][0]["data"] == {"pass": f"{len(OTHER)} bytes long"}
    assert not [path for path in api["asked"] if "/nodes/down/" in path or "/etcd-down/log" in path]
    assert "node down: not Ready" in files["must-gather.logs"]
    assert list(tmp_path.parent.glob("**/escaped*")) == []


def test_a_limit_ends_it_and_keeps_the_rest(
    api: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mustgather, "LARGEST", 600)
    code, files = gathered(tmp_path)
    assert code == 1
    assert "the rest is left out" in files["must-gather.logs"]
    assert len(files) > 3
    monkeypatch.undo()
    (tmp_path / "out").rename(tmp_path / "before")
    code, files = gathered(tmp_path, seconds=0)
    assert code == 1
    assert "not done within 0 s" in files["must-gather.logs"]


def test_what_is_malformed_is_noted_and_the_rest_is_gathered(api: dict[str, Any], tmp_path: Path) -> None:
    longest, ended_line = "r" * 253, f"{OTHER}-2"
    secret = obj("line", "openshift-etcd", data={"pass": base64.b64encode(f"{ended_line}\n".encode()).decode()})
    api["/api/v1/secrets"]["items"] += [obj("list", "openshift-etcd", data=["x"]), "no object", secret]
    api["/api/v1/pods"]["items"] += [obj("odd", "openshift-etcd", spec="x")]
    api["/api/v1/nodes"]["items"] += [obj("odd", status={"conditions": ["x"]})]
    nested: dict[str, Any] = {}
    for _ in range(450):
        nested = {"a": nested}
    api["/api/v1/configmaps"]["items"] += [obj("deep", "openshift-etcd", data=nested)]
    api["/apis"]["groups"] += [{"name": "without.version"}, "no group"]
    api["/api/v1"]["resources"] += ["no resource"]
    api["/apis/config.openshift.io/v1/infrastructures"]["items"] += [obj(longest)]
    api["/api/v1/namespaces/openshift-etcd/pods/etcd-up/log"] += f"then {ended_line}\n"
    code, files = gathered(tmp_path)
    assert code == 0
    for subject in ("configmaps.core", "node odd", "pod openshift-etcd/odd", "a group of the API"):
        assert f" {subject}: an answer of another shape" in files["must-gather.logs"]
    assert [name for name in files if name.startswith("cluster-scoped") and "/rrr" in name]
    assert "namespaces/openshift-etcd/pods/etcd-up/main/main/logs/current.log" in files
    assert ended_line not in "\n".join(files.values())


def test_an_endless_list_is_given_up(api: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mustgather, "LARGEST_LIST", 10_000)
    api["/api/v1/configmaps"]["metadata"] = {"continue": "again"}
    code, files = gathered(tmp_path)
    assert code == 0
    assert "configmaps.core: GET /api/v1/configmaps: more than" in files["must-gather.logs"]


def test_an_empty_directory_is_filled_through_a_link_too(api: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    _, files = gathered(tmp_path)
    assert files
    assert {path.name for path in tmp_path.iterdir()} == {"kubeconfig", "out", "real"}


def test_nothing_is_made_where_nothing_can_be_gathered(api: dict[str, Any], tmp_path: Path) -> None:
    del api["/version/"]
    with pytest.raises(InstallerError, match="kube API: 404"):
        gathered(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/mine").touch()
    with pytest.raises(InstallerError, match=r"--kubeconfig .*no such file; --dest-dir .*empty"):
        mustgather.run(tmp_path / "missing", tmp_path / "taken")
    assert {path.name for path in tmp_path.iterdir()} == {"kubeconfig", "taken"}
