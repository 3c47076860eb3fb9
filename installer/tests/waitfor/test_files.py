"""Files that wait-for reads and writes: kubeconfig, evidence, state."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common.redact import MARK, redact
from installer.errors import StateError, WaitError
from installer.files import write_whole
from installer.observe import service, state
from installer.observe.archive import safe_parts, unpack
from installer.testing.create.assets_kit import GOOD, asset_dir, pem
from installer.waitfor import kubeconfig

bundles = st.lists(st.binary(min_size=1, max_size=100).map(pem), max_size=5)
noise = st.sampled_from(["", "\n", "# a comment\n", "\r\n"])


@settings(deadline=None)
@given(bundles, bundles, noise)
def test_merge_router_first_nothing_lost_nothing_twice(router, current, between):
    merged = kubeconfig.merge(("\n" + between).join(router), "\n".join(current))
    blocks = kubeconfig.blocks(merged)
    assert blocks[: len(set(router))] == list(dict.fromkeys(router))
    assert set(blocks) == {*router, *current}
    assert len(blocks) == len(set(blocks))
    rest = [block for block in blocks if block not in router]
    assert rest == [block for block in dict.fromkeys(current) if block not in router]
    assert kubeconfig.merge("\n".join(router), merged) == merged


@settings(max_examples=50, deadline=None)
@given(bundles.filter(bool), bundles)
def test_kubeconfig_keeps_everything_else(router, current):
    document = {
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://api.x:6443",
                    "certificate-authority-data": base64.b64encode("\n".join(current).encode()).decode(),
                },
            }
        ],
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "admin",
        "users": [{"name": "admin", "user": {"client-key-data": "c2VjcmV0"}}],
    }
    text = kubeconfig.with_router_ca(yaml.safe_dump(document), "\n".join(router))
    after = yaml.safe_load(text)
    ca = base64.b64decode(after["clusters"][0]["cluster"].pop("certificate-authority-data")).decode()
    assert kubeconfig.blocks(ca)[0] == router[0]
    document["clusters"][0]["cluster"].pop("certificate-authority-data")  # type: ignore[index]
    assert after == document
    assert kubeconfig.with_router_ca(text, "\n".join(router)) == text


@pytest.mark.parametrize(
    "text", ["", "[]", "clusters: 5", "clusters: [{cluster: {certificate-authority-data: '%'}}]", "{"]
)
def test_broken_kubeconfig(text):
    with pytest.raises(StateError):
        kubeconfig.with_router_ca(text, pem(b"x"))


def test_bad_bundle_is_an_install_failure(tmp_path):
    with pytest.raises(WaitError) as caught:
        kubeconfig.add_router_ca(tmp_path / "kubeconfig", "nonsense")
    assert caught.value.exit_code == 6


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    write_whole(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(content)
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            tar.addfile(info, io.BytesIO(content))


def test_unpack_stays_inside(tmp_path):
    packed, target = tmp_path / "a.tar.gz", tmp_path / "logs" / "cluster"
    archive(
        packed,
        [
            ("good/a.log", b"a", tarfile.REGTYPE),
            ("./b.log", b"b", tarfile.REGTYPE),
            ("../evil", b"x", tarfile.REGTYPE),
            ("good/../../evil", b"x", tarfile.REGTYPE),
            ("/abs", b"x", tarfile.REGTYPE),
            ("link", b"", tarfile.SYMTYPE),
            ("link/through", b"y", tarfile.REGTYPE),
            ("hard", b"", tarfile.LNKTYPE),
            ("pipe", b"", tarfile.FIFOTYPE),
        ],
    )
    skipped = unpack(packed, target)
    assert set(skipped) == {"../evil", "good/../../evil", "/abs", "link", "hard", "pipe"}
    inside = sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())
    assert inside == [".unpacked", "b.log", "good/a.log", "link/through"]
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "logs" / "evil").exists()
    (target / "of-the-first-time").write_text("x")
    assert unpack(packed, target) == skipped
    assert not (target / "of-the-first-time").exists()


@pytest.mark.parametrize("mine", ["cluster/notes.txt", "cluster", "elsewhere"])
def test_unpack_takes_no_other_folders_place(tmp_path, mine):
    packed, target = tmp_path / "a.tar.gz", tmp_path / "cluster"
    archive(packed, [("a.log", b"a", tarfile.REGTYPE)])
    if mine == "elsewhere":
        (tmp_path / mine).mkdir()
        (tmp_path / mine / ".unpacked").write_text("")
        target.symlink_to(mine)
        mine = "elsewhere/.unpacked"
    else:
        (tmp_path / mine).parent.mkdir(exist_ok=True)
        (tmp_path / mine).write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(OSError, match=r"not unpacked here|Not a directory"):
        unpack(packed, target)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert target.is_symlink() or target.exists()
    (tmp_path / "empty").mkdir()
    assert unpack(packed, tmp_path / "empty") == []


@settings(deadline=None)
@given(st.text(alphabet="ab./\\\0", max_size=12))
def test_safe_parts_never_climbs(name):
    parts = safe_parts(name)
    if parts is not None:
        assert parts
        assert all(part not in ("", ".", "..") and "/" not in part for part in parts)


def test_redact():
    token = "eyJhbGciOiJFUzI1NiJ9.eyJhdXRoX3NjaGVtZSI6.c2lnbmF0dXJl"
    secret = '{"auths":{"r":{"auth":"dTpw"}}}'
    host = {
        "pull_secret": secret,
        "pull_secret_set": True,
        "requested_hostname": "master-0",
        "installer_args": json.dumps(["--header", token]),
        "ignition_config_overrides": json.dumps({"pullSecret": secret, "x": 1}),
        "message": f'cannot pull: "auth": "dTpw" {token} https://u:pw@proxy:1/ word-of-mine',
        "nested": [{"image_token": "abc", "password": "p"}],
        "validations_info": '{"hardware":[{"id":"pull-secret-set","status":"success","message":"It is set"}]}',
    }
    clean = redact(host, ("word-of-mine",))
    text = json.dumps(clean)
    for bad in (token, "dTpw", "u:pw", "word-of-mine", '"abc"'):
        assert bad not in text
    assert clean["pull_secret"] == MARK
    assert clean["pull_secret_set"] is True
    assert clean["requested_hostname"] == "master-0"
    assert clean["validations_info"] == host["validations_info"]
    assert json.loads(clean["ignition_config_overrides"]) == {"pullSecret": MARK, "x": 1}


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_redact_keeps_shape_and_is_idempotent(value):
    once = redact(value)
    assert redact(once) == once
    assert type(once) is type(value)


def test_state(tmp_path):
    inputs = state.load(asset_dir(tmp_path, GOOD), with_password=False)
    assert inputs.expected == state.Expected(("master-0",), 2)
    with pytest.raises(StateError, match="kubeadmin password"):
        state.load(tmp_path, with_password=True)


@pytest.mark.parametrize(
    "change",
    [{"rendezvousIP": "node0"}, {"rendezvousIP": None}, {"serviceCACert": "x"}, {"watcherToken": ""},
     {"serviceCACert": pem(b"x")}, {"serviceCACert": "\ud800"}, {"watcherToken": "a\nb"},
     {"expectedHosts": {"controlPlane": float("inf")}}, {"expectedHosts": {"workers": -1}},
     {"expectedHosts": {"names": "ab"}}, {"expectedHosts": {"macAddresses": ["ab"]}},
     {"expectedHosts": None}, {"expectedHosts": {"names": [], "controlPlane": "x"}}],
)  # fmt: skip
def test_state_says_what_is_wrong(tmp_path, change):
    with pytest.raises(StateError) as caught:
        state.load(asset_dir(tmp_path, {**GOOD, **change}), with_password=False)
    assert next(iter(change)) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(": run `agent create image` again")


FOREIGN = {
    "*gencrypto.AuthConfig": {"PublicKey": "a2V5", "WatcherAuthToken": "a.b-c_d", "AuthType": "agent-installer-local"},
    "*image.Ignition": {"CPUArch": "x86_64", "RendezvousIP": "192.168.111.80"},
    "*manifests.ClusterDeployment": {"Config": {"spec": {"clusterName": "ostest", "baseDomain": "test.example"}}},
    "*manifests.AgentClusterInstall": {
        "Config": {
            "spec": {"platformType": "BareMetal", "provisionRequirements": {"controlPlaneAgents": 3, "workerAgents": 2}}
        }
    },
    "*agentconfig.AgentHosts": {
        "Hosts": [
            {"hostname": "master-0", "interfaces": [{"name": "eth0", "macAddress": "52:54:00:AA:00:01"}]},
            {"interfaces": None},
        ]
    },
}


def test_a_directory_of_openshift_install(tmp_path):
    """Its own state has what waiting needs; there is no CA, since its service has no TLS."""
    directory = asset_dir(tmp_path, GOOD)
    (directory / state.STATE_FILE).write_text(json.dumps(FOREIGN))
    inputs = state.load(directory, with_password=False)
    assert (inputs.rendezvous_ip, inputs.token, inputs.ca_pem) == ("192.168.111.80", "a.b-c_d", "")
    assert (inputs.cluster_name, inputs.base_domain, inputs.platform) == ("ostest", "test.example", "baremetal")
    described: tuple[tuple[str, frozenset[str]], ...]
    described = (("master-0", frozenset({"52:54:00:aa:00:01"})), ("", frozenset()))
    assert inputs.expected == state.Expected(("master-0",), 5, described)
    assert service.service_endpoint(inputs, service.Reach()).url == "http://192.168.111.80:8090"


@pytest.mark.parametrize("lost", ["*gencrypto.AuthConfig", "*image.Ignition"])
def test_one_in_which_no_image_was_made(tmp_path, lost):
    directory = asset_dir(tmp_path, GOOD)
    (directory / state.STATE_FILE).write_text(json.dumps({key: FOREIGN[key] for key in FOREIGN if key != lost}))
    with pytest.raises(StateError, match="run `agent create image` first"):
        state.load(directory, with_password=False)


@settings(max_examples=50, deadline=None)
@given(st.recursive(st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.sampled_from(
    ["Config", "spec", "Hosts", "interfaces", "provisionRequirements", "RendezvousIP", *FOREIGN]), c)))  # fmt: skip
def test_no_state_of_anybodys_ends_in_a_traceback(document):
    with tempfile.TemporaryDirectory() as folder:
        directory = asset_dir(Path(folder), GOOD)
        (directory / state.STATE_FILE).write_text(json.dumps(document))
        with contextlib.suppress(StateError):
            state.load(directory, with_password=False)
