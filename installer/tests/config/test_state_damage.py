"""A state file that is damaged in whatever way: one line that names it and says what to do; never half its secrets."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from installer.cli import main
from installer.common.formats import yamltext
from installer.config import state as states
from installer.config.load import parse_agent_config, parse_install_config, resolve_hosts
from installer.config.state import AUTH, CREDENTIALS, FILE, INSTALL_CONFIG, OWN, WHAT_TO_DO, State
from installer.create.stages import check as check_stage
from installer.create.stages import secrets
from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.create.stages.write import own_state
from installer.create.targets import certificates
from installer.credentials.background import SIGNERS
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, InstallerError
from installer.manifests import read as manifests_read
from installer.manifests.cluster import Inputs, cluster_manifests
from installer.observe import state as waiting
from installer.overrides import RELEASE_OVERRIDE
from installer.testing.create.inputs_kit import AGENT, SNO

pytestmark = pytest.mark.slow

RELEASE = f"registry.example:5000/release@sha256:{'0' * 64}"
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n"


class Whole(dict[str, Any]):
    """Not shown when a test fails: it is long."""

    def __repr__(self) -> str:
        return "<a state>"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Provide the state that `create image` leaves, with files of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "install-config.yaml").write_text(yaml.safe_dump(SNO))
    (folder / "agent-config.yaml").write_text(yaml.safe_dump(AGENT))
    (folder / "openshift").mkdir()
    (folder / "openshift/a.yaml").write_text(MANIFEST)
    inputs = check(read(folder, "X"), "X")
    state = State.load(folder)
    new_secrets = secrets.secrets_for(state, inputs.rendezvous_ip, "ostest", "test.node0.example")
    for asset, files in inputs.consumed.items():
        state.put_files(asset, files)
    state.put_files(states.MIRROR, {"mirror/registries.conf": b"", "mirror/ca-bundle.crt": b""})
    secrets.store(state, new_secrets)
    state.put(OWN, own_state(inputs, new_secrets, {"etcd": "registry.x/etcd@sha256:0"}))
    return Whole(json.loads(state.text()))


@pytest.fixture(scope="module")
def manifests(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Provide the state where cluster-manifests/ was the input."""
    state = State(tmp_path_factory.mktemp("manifests"), copy.deepcopy(whole))
    files = state.files(INSTALL_CONFIG) | state.files(states.AGENT_CONFIG)
    state.data.pop(INSTALL_CONFIG)
    install = parse_install_config(files["install-config.yaml"].decode())
    agent = parse_agent_config(files["agent-config.yaml"].decode())
    rendered = cluster_manifests(Inputs(install, (), resolve_hosts(install, agent), RELEASE, release_version="4.18.0"))
    state.put_files(states.MANIFESTS, {f"cluster-manifests/{name}": data for name, data in rendered.items()})
    return Whole(json.loads(state.text()))


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """Thousands of states differ in one value each: a text that was good before is not parsed again."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (check_stage, "parse_install_config"),
            (check_stage, "parse_agent_config"),
            (yamltext, "compose"),
            (secrets.certificates, "check"),
            (secrets.tokens, "check"),
            (secrets.access, "is_kubeconfig"),
        ):
            patch.setattr(module, name, functools.cache(getattr(module, name)))
        patch.setattr(manifests_read, "compose_all", functools.cache(lambda text: [*yamltext.compose_all(text)]))
        yield


@pytest.fixture(autouse=True)
def release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the release as the manifests do."""
    monkeypatch.setenv(RELEASE_OVERRIDE, RELEASE)


def uses(directory: Path, *, configs: bool) -> Iterator[Callable[[], Any]]:
    """All that reads a state; without `configs` not what reads the inputs that it keeps."""
    if configs:
        yield lambda: check(read(directory, "X"), "X")
    yield lambda: secrets.secrets_for(State.load(directory), "192.168.111.80", "ostest", "test.node0.example")
    yield lambda: waiting.load(directory, with_password=False)


def prepared(directory: Path, text: str) -> Path:
    """Return an asset directory whose inputs are in its state. Who reads a state writes nothing there."""
    (directory / "auth").mkdir(parents=True, exist_ok=True)
    (directory / "auth/kubeconfig").write_text("{}")
    (directory / FILE).write_text(text)
    return directory


def refusals(directory: Path, *, configs: bool = True) -> list[str]:
    """Return the refusals of each user of the state; any other exception gets through."""
    refused = []
    for use in uses(directory, configs=configs):
        try:
            use()
        except InstallerError as error:
            refused.append(str(error))
    return refused


def check_refusals(lines: list[str]) -> None:
    for line in lines:
        assert "\n" not in line
        assert len(line) < 2000
        if "install-config.yaml does not exist" not in line:
            assert FILE in line
            assert WHAT_TO_DO in line or "run `agent create image`" in line
        for secret in ("PRIVATE KEY", "s3cr3t", "dXNlcjpzM2NyM3Q=", "eyJ"):
            assert secret not in line


def paths(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from paths(value, (*here, key))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


JUNK: tuple[Any, ...] = (
    *("", "x", "\0", "\ud800"),
    *(-1, 1e999, True, None, [], [5], {"x": 5}),
)
DROP = object()


def damaged(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document, key = copy.copy(document), path[0]
    if len(path) > 1:
        document[key] = damaged(document[key], path[1:], value)
    elif value is DROP:
        del document[key]
    else:
        document[key] = value
    return document


@pytest.mark.parametrize("kind", ["whole", "manifests"])
def test_undamaged(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    document = request.getfixturevalue(kind)
    directory = prepared(tmp_path / "dir", json.dumps(document))
    assert refusals(directory) == []
    certificates(directory)
    written = (directory / "tls/admin-kubeconfig-signer.key").read_text()
    assert written == document[CREDENTIALS]["signers"]["admin-kubeconfig-signer"]["key"]
    (directory / FILE).write_text(json.dumps(damaged(document, (CREDENTIALS, "password"), 5)))
    with pytest.raises(InstallerError, match="password is missing or not a text"):
        certificates(directory)


@pytest.mark.parametrize("kind", ["whole", "manifests"])
def test_each_key_dropped_and_replaced(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    document = request.getfixturevalue(kind)
    seen: set[tuple[Any, ...]] = set()
    for path in paths(document):
        configs = len(path) == 1 or path[0] not in (AUTH, CREDENTIALS, OWN)
        if kind == "manifests" and not configs:
            continue  # who reads these does not look at manifests
        # What is in all signers alike, or in all files of a list, is replaced by everything in the first of them.
        like = tuple("*" if part in SIGNERS or isinstance(part, int) else part for part in path)
        for value in (DROP, *(JUNK if kind == "whole" and like not in seen else JUNK[:4])):
            directory = prepared(tmp_path / "dir", json.dumps(damaged(document, path, value)))
            refused = refusals(directory, configs=configs)
            check_refusals(refused)
            if path[0] in (AUTH, CREDENTIALS) and (value is DROP or not isinstance(value, str)):
                assert refused, (path, value)
        seen.add(like)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_text_that_is_garbled(whole: Whole, tmp_path: Path, data: st.DataObject) -> None:
    texts = [path for path in paths(whole) if isinstance(at(whole, path), str) and at(whole, path)]
    path = data.draw(st.sampled_from(texts))
    text = at(whole, path)
    place = data.draw(st.integers(0, len(text) - 1))
    new = text[:place] + data.draw(st.sampled_from(["", "A", "é", "\n", "\0", "\ud800"])) + text[place + 1 :]
    directory = prepared(tmp_path / "dir", json.dumps(damaged(whole, path, new)))
    refused = refusals(directory)
    check_refusals(refused)
    if not refused and path[0] == AUTH:
        # What passes is what was there: white space in PEM, say.
        state = State.load(directory)
        read_back, before = secrets.saved_secrets(state), secrets.saved_secrets(State(directory, whole))
        assert read_back is not None
        assert before is not None
        assert (read_back.tokens.agent, read_back.tokens.user) == (before.tokens.agent, before.tokens.user)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_that_is_cut_or_overwritten(whole: Whole, tmp_path: Path, data: st.DataObject) -> None:
    content = json.dumps(whole).encode()
    place = data.draw(st.integers(0, len(content)))
    more = data.draw(st.binary(max_size=8))
    directory = prepared(tmp_path / "dir", "")
    (directory / FILE).write_bytes(content[:place] + more + content[place + data.draw(st.integers(0, 999)) :])
    check_refusals(refusals(directory))


@pytest.mark.parametrize("text", ["", "5", "[]", "{", "[" * 100_000, "9" * 5000, "\0", '"\\ud800"'])
def test_a_file_that_is_no_state(tmp_path: Path, text: str) -> None:
    refused = refusals(prepared(tmp_path / "dir", text))
    assert len(refused) == 3
    check_refusals(refused)


def test_null_is_an_empty_state(tmp_path: Path) -> None:
    """As Go reads it: what is missed then is told, and secrets may be made."""
    refused = refusals(prepared(tmp_path / "dir", "null"))
    assert len(refused) == 2
    check_refusals(refused)


def test_a_state_without_the_config(tmp_path: Path, capsys: pytest.CaptureFixture[str], whole: Whole) -> None:
    files = [{"Filename": "x", "Data": "YQ=="}]
    directory = prepared(tmp_path / "dir", json.dumps({INSTALL_CONFIG: {"Files": files}}))
    before = (directory / FILE).read_bytes()
    assert main(["agent", "create", "image", "--dir", str(directory)]) == EXIT_FATAL
    stderr = capsys.readouterr().err.splitlines()[-1]
    assert f"{directory / FILE}: {INSTALL_CONFIG}.Files[0].Filename is not the name of a file" in stderr
    assert stderr.endswith(WHAT_TO_DO)
    assert (directory / FILE).read_bytes() == before
    # A config that was damaged there has the exit code of one on the disk.
    path = (INSTALL_CONFIG, "Files", 0, "Data")
    prepared(directory, json.dumps(damaged(whole, path, "YQ==")))
    assert main(["agent", "create", "image", "--dir", str(directory)]) == EXIT_INSTALL_CONFIG
    assert f"(as kept in {directory / FILE}: {WHAT_TO_DO})" in capsys.readouterr().err


@pytest.mark.parametrize("lost", [AUTH, CREDENTIALS])
def test_half_of_the_secrets_is_not_replaced(tmp_path: Path, whole: Whole, lost: str) -> None:
    """New ones would shut out whoever has the kubeconfig, or an ISO that was booted."""
    directory = prepared(tmp_path / "dir", json.dumps(damaged(whole, (lost,), DROP)))
    with pytest.raises(InstallerError, match="is missing or not a text"):
        secrets.secrets_for(State.load(directory), "192.168.111.80", "ostest", "test.node0.example")


def test_secrets_of_two_states(tmp_path: Path, whole: Whole) -> None:
    """Each is whole; together they are of no use."""
    other = secrets.secrets_for(State(tmp_path, {}), "192.168.111.80", "ostest", "test.node0.example")
    state = State(tmp_path, {})
    secrets.store(state, other)
    for path, rule in (
        ((AUTH, "PublicKey"), "AgentAuthToken is none that PublicKey has signed for agentAuth"),
        ((AUTH, "WatcherAuthToken"), "WatcherAuthToken is none that PublicKey has signed for watcherAuth"),
        ((CREDENTIALS, "serviceCA", "key"), "serviceCA: certificate and key do not belong together"),
    ):
        directory = prepared(tmp_path / "dir", json.dumps(damaged(whole, path, at(state.data, path))))
        with pytest.raises(InstallerError, match=rule):
            secrets.saved_secrets(State.load(directory))


@pytest.mark.parametrize("asset", [INSTALL_CONFIG, states.AGENT_CONFIG])
def test_what_go_would_not_read_of_the_configs(tmp_path: Path, whole: Whole, asset: str) -> None:
    """These fields are openshift-install's own, which ends with 1 at such a state file, and takes null for nothing."""
    refused: dict[str, Any] = {"Config": [], "config": "x", "File": [5], "file": False}
    for key, value in refused.items():
        directory = prepared(tmp_path / "dir", json.dumps(damaged(whole, (asset, key), value)))
        with pytest.raises(InstallerError, match=rf"{FILE}: \{asset}\.{key} is not a JSON object: {WHAT_TO_DO}$"):
            State.load(directory)
    taken: dict[str, Any] = {"Config": None, "File": {}, "Supplied": []}
    for key, value in taken.items():
        assert refusals(prepared(tmp_path / "dir", json.dumps(damaged(whole, (asset, key), value)))) == []
