"""Ignition configs, machine configs and etcd's data in them."""

import gzip
import json
import tracemalloc

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab.release.cluster.bootkube.command import WAL_TAIL, etcd_data
from lab.release.cluster.errors import ConfigError
from lab.release.cluster.ignition import containerd, machineconfig, negotiate
from lab.release.cluster.ignition import document as ignition
from lab.release.cluster.installconfig import Mirror
from lab.testing.ignition import read_data_url

PATHS = st.sampled_from(["/a", "/b", "/c"])
CONFIGS = st.builds(
    lambda files, units: ignition.config(
        [ignition.file(path, text) for path, text in files.items()], [ignition.unit(n, t) for n, t in units.items()]
    ),
    st.dictionaries(PATHS, st.text(max_size=5)),
    st.dictionaries(st.sampled_from(["x.service", "y.service"]), st.text(max_size=5)),
)


def contents(config):
    return {
        f["path"]: read_data_url(f["contents"]["source"], f["contents"].get("compression"))
        for f in config.get("storage", {}).get("files", [])
    }


@given(CONFIGS, CONFIGS, CONFIGS)
def test_merge_is_associative_and_the_child_wins(a, b, c):
    left = ignition.merge(ignition.merge(a, b), c)
    right = ignition.merge(a, ignition.merge(b, c))
    assert contents(left) == contents(right) == {**contents(a), **contents(b), **contents(c)}
    assert ignition.merge(a, ignition.config()) == a


@given(st.binary(max_size=200), st.booleans())
def test_file_contents_survive(raw, compress):
    entry = ignition.file("/x", raw, compress=compress)["contents"]
    assert read_data_url(entry["source"], entry.get("compression")) == raw


def test_a_gzip_that_unpacks_to_more_than_a_node_can_hold_is_refused_before_it_does():
    packed = gzip.compress(bytes(ignition.MAX_UNPACKED), 1)
    assert len(ignition.read(ignition.data_url(packed), "gzip")) == ignition.MAX_UNPACKED
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 16 MiB"):
        ignition.read(ignition.data_url(packed * 12), "gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * ignition.MAX_UNPACKED
    with pytest.raises(ValueError, match="cannot be decoded"):
        ignition.read(ignition.data_url(packed[:-4]), "gzip")


def test_percent_encoded_data_urls_are_read():
    assert read_data_url("data:,a%20b%0A") == b"a b\n"


def test_etcd_data_is_cut_behind_its_last_record(tmp_path):
    wal, snap = tmp_path / "member" / "wal", tmp_path / "member" / "snap"
    wal.mkdir(parents=True)
    snap.mkdir()
    record = b"x" * 10_001
    (wal / "0.wal").write_bytes(record + bytes(1 << 20))
    (wal / "0.tmp").write_bytes(bytes(1 << 20))
    (snap / "db").write_bytes(b"db" + bytes(5000))
    files, directories = etcd_data(tmp_path)
    by_path = contents({"storage": {"files": files}})
    kept = by_path["/var/lib/etcd/member/wal/0.wal"]
    assert kept.startswith(record)
    assert not kept[len(record) :].strip(b"\0")
    assert WAL_TAIL <= len(kept) - len(record) <= 2 * WAL_TAIL
    assert by_path["/var/lib/etcd/member/snap/db"] == b"db" + bytes(5000)
    assert set(by_path) == {"/var/lib/etcd/member/wal/0.wal", "/var/lib/etcd/member/snap/db"}
    assert {d["mode"] for d in directories} == {0o700}
    assert len(json.dumps(files)) < 5000


def test_rendered_config_takes_the_later_name_and_only_its_pool():
    def config(name, role, text):
        return machineconfig.machine_config(name, role, ignition.config([ignition.file("/f", text)]))

    configs = [config("99-mine", "master", "new"), config("00-base", "master", "old"), config("99-w", "worker", "w")]
    pool = machineconfig.machine_config_pool("master")
    rendered, again = (
        machineconfig.rendered("master", machineconfig.selected(pool, some), "") for some in (configs, configs[::-1])
    )
    assert contents(rendered["spec"]["config"]) == {"/f": b"new"}
    assert rendered["metadata"]["name"] == again["metadata"]["name"]
    assert rendered["metadata"]["name"].startswith("rendered-master-")
    served = contents(machineconfig.served("master", rendered, "kubeconfig", "ca"))
    notes = json.loads(served["/etc/machine-config-daemon/node-annotations.json"])
    assert notes["machineconfiguration.openshift.io/currentConfig"] == rendered["metadata"]["name"]
    assert served["/etc/kubernetes/kubeconfig"] == b"kubeconfig"


@pytest.mark.parametrize(
    ("source", "mirror", "base"),
    [
        ("a.example/n/r", "m.example:5000/n/r", "https://m.example:5000/v2"),
        ("a.example/n/r", "m.example/deep/n/r", "https://m.example/v2/deep"),
        ("a.example", "m.example/deep", "https://m.example/v2/deep"),
    ],
)
def test_mirror_base(source, mirror, base):
    assert containerd.mirror_base(source, mirror) == base


def test_a_mirror_that_containerd_cannot_reach_is_refused():
    with pytest.raises(ConfigError, match="must end with the source's path"):
        containerd.hosts_files([Mirror("a.example/n/r", ("m.example/other",))], "")


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1", "3.2.0"),
        ("application/vnd.coreos.ignition+json; version=3.9.0", "3.5.0"),
        ("application/vnd.coreos.ignition+json;version=2.3.0", None),
        ("", "3.2.0"),
        ("*/*", "3.2.0"),
        (
            "application/vnd.coreos.ignition+json;version=2.2.0;q=0.2, "
            "application/vnd.coreos.ignition+json;version=3.1.0",
            "3.1.0",
        ),
    ],
)
def test_ignition_version_negotiation(accept, version):
    assert negotiate.version_for(accept) == version


@given(st.text(max_size=40))
def test_negotiation_survives_any_header(accept):
    negotiate.version_for(accept)


def test_node_labels_fit_what_a_kubelet_may_set():
    rendered = machineconfig.rendered("master", [], "")
    served = contents(machineconfig.served("master", rendered, "k", "c"))
    text = served["/etc/kubernetes/kubelet-labels.env"].decode().strip().removeprefix("KUBELET_NODE_LABELS=")
    for pair in text.split(","):
        key, value = pair.split("=")
        assert "kubernetes.io" not in key.replace("node.openshift.io", "")
        assert len(value) <= 63
    assert yaml.safe_load(served["/etc/kubernetes/kubeconfig"]) == "k"
