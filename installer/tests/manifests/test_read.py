"""cluster-manifests/ and mirror/ as inputs: rules of reference/installer.md §2.1, and whatever else comes in."""

import copy
import functools
import json
import logging
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from installer.common.formats.yamltext import compose_all
from installer.config.load import parse_install_config
from installer.config.rules.general import SKIP_FIPS_CHECK
from installer.config.types.agent import Host, Interface
from installer.errors import ConfigError, InstallerError
from installer.manifests import files as names
from installer.manifests import mirror, read, ztp
from installer.manifests.completed import completed
from installer.release import DigestSource, registries_conf
from installer.rendezvous.client import manifests as client
from installer.rendezvous.registries import digest_sources
from installer.testing.create.inputs_kit import AGENT, COMPACT, SNO, text
from installer.testing.create.manifests_kit import RELEASE, edited, generated


@pytest.fixture(scope="module", autouse=True)
def composed_once():
    """Of the files of one test most are those of the test before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "compose_all", functools.cache(lambda text: [*compose_all(text)]))
        yield


@pytest.mark.parametrize("install", [SNO, COMPACT, {**SNO, "fips": True, "sshKey": ""}], ids=["sno", "compact", "fips"])
def test_what_is_generated_is_read_back_as_the_same_cluster(install, monkeypatch):
    monkeypatch.setenv(SKIP_FIPS_CHECK, "1")
    agent = AGENT if install is not COMPACT else {**AGENT, "hosts": AGENT["hosts"][:1]}
    config, hosts, files = generated(install, agent)
    manifests = read.read_manifests(files, RELEASE, "X")
    back = ztp.install_config(manifests, config.sources, config.additional_trust_bundle)
    assert (back.metadata.name, back.base_domain) == ("ostest", "test.node0.example")
    assert (back.masters, back.arbiters, back.workers) == (config.masters, config.arbiters, config.workers)
    assert back.platform.names() == config.platform.names()
    assert json.loads(back.pull_secret) == json.loads(config.pull_secret)
    assert back.ssh_key == config.ssh_key.strip()
    assert back.fips is config.fips
    assert back.control_plane is not None
    assert config.control_plane is not None
    assert back.control_plane.architecture == config.control_plane.architecture
    assert back.networking is not None
    assert config.networking is not None
    assert back.networking.machine_network == config.networking.machine_network
    assert ztp.with_networks(hosts, manifests) == hosts


CASES = [
    (names.INSTALL, "spec.platformType", "Cloud", 'invalid PlatformType configured: spec.platformType: Unsupported value: "Cloud": supported values: "BareMetal", "VSphere", "Nutanix", "None", "External"'),  # noqa: E501
    (names.INSTALL, "spec.networking.userManagedNetworking", False, "invalid PlatformType configured: spec.networking.userManagedNetworking: Forbidden: None platform requires user-managed networking"),  # noqa: E501
    (names.INSTALL, "spec.networking.clusterNetwork.0.hostPrefix", 26, "invalid NetworkType configured: spec.networking.clusterNetwork[0].hostPrefix: Invalid value: 26: must be at most 25"),  # noqa: E501
    (names.INSTALL, "spec.networking.clusterNetwork.0.cidr", "nonsense", "spec.networking.clusterNetwork[0].cidr: Required value: error parsing the clusterNetwork CIDR"),  # noqa: E501
    (names.INSTALL, "spec.provisionRequirements.workerAgents", 5000, "prefix length 14 not large enough to accommodate 5001 hosts with hostPrefix length 23"),  # noqa: E501
    (names.INSTALL, "spec.diskEncryption", {"enableOn": "some", "mode": "tpmv2"}, 'invalid DiskEncryption configured: spec.diskEncryption.enableOn: Unsupported value: "some"'),  # noqa: E501
    (names.INSTALL, "spec.diskEncryption", {"enableOn": "all", "mode": "x"}, "spec.diskEncryption.mode: Unsupported value"),  # noqa: E501
    (names.INSTALL, "spec.sshPublicKeys", "x", f'failed to unmarshal {names.INSTALL}: line'),
    (names.INSTALL, "spec.networking.networkTipe", "x", 'unknown field "networkTipe" in spec.networking, did you mean "networkType"?'),  # noqa: E501
    (names.INSTALL, "metadata.annotations", {"agent-install.openshift.io/install-config-overrides": "{"}, None),
    (names.IMAGE_SET, "spec.releaseImage", "other", f'invalid ClusterImageSet configuration: spec.releaseImage: Invalid value: "other": value must be equal to {RELEASE}'),  # noqa: E501
    (names.INFRA_ENV, "spec.cpuArchitecture", "vax", "Config.Spec.CpuArchitecture vax is not supported"),
    (names.INFRA_ENV, "spec.nmStateConfigLabelSelector.matchLabels", {"a": "b"}, "invalid agent configuration: spec.nmStateConfigLabelSelector.matchLabels: Required value: infraEnv and ostest-0 NMState Config labels do not match. Expected: map[a:b] Found: map[infraenvs.agent-install.openshift.io:ostest]"),  # noqa: E501
    (names.NMSTATE, "metadata.labels", ..., "invalid NMStateConfig configuration: labels: Required value: ostest-0 does not have any label set"),  # noqa: E501
    (names.NMSTATE, "kind", "Other", f"could not decode YAML for {names.NMSTATE}"),
    (names.PULL_SECRET, "stringData", ..., "invalid PullSecret configuration: stringData: Required value: the pull secret is empty"),  # noqa: E501
    (names.PULL_SECRET, "stringData", {"x": "y"}, "the pull secret key '.dockerconfigjson' is not defined"),
    (names.PULL_SECRET, "stringData", {".dockerconfigjson": ""}, "the pull secret does not contain any data"),
    (names.PULL_SECRET, "stringData", {".dockerconfigjson": '{"auths": {"r": {"secret": "s3cr3t"}}}'}, "invalid PullSecret configuration: stringData: Invalid value"),  # noqa: E501
    (names.DEPLOYMENT, "kind", "Secret", 'kind must be "ClusterDeployment", is "Secret"'),
    (names.DEPLOYMENT, "kind", "a\nb", r'kind must be "ClusterDeployment", is "a\nb"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "path", "value", "message"), CASES)
def test_rules(name, path, value, message):
    _config, _hosts, files = generated()
    files = edited(files, name, path, value)
    if message is None:
        manifests = read.read_manifests(files, RELEASE, "X")
        with pytest.raises(ConfigError, match="install-config-overrides annotation"):
            ztp.install_config(manifests, (), "")
        return
    with pytest.raises(InstallerError) as caught:
        read.read_manifests(files, RELEASE, "Agent Installer ISO")
    assert message in str(caught.value)
    assert str(caught.value).startswith("failed to fetch Agent Installer ISO: ")
    assert "\n" not in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_a_pull_secret_in_data_is_said_to_be_there():
    _config, _hosts, files = generated()
    files[names.PULL_SECRET] = b"{kind: Secret, apiVersion: v1, data: {.dockerconfigjson: e30=}}"
    with pytest.raises(ConfigError, match="is read from stringData, as plain text; data is not read"):
        read.read_pull_secret(files)


def test_pod_networks_of_other_network_types_are_not_judged():
    _config, _hosts, files = generated()
    files = edited(files, names.INSTALL, "spec.networking.networkType", "Cilium")
    files = edited(files, names.INSTALL, "spec.networking.clusterNetwork.0.hostPrefix", 14)
    assert read.read_install(files).spec.networking.cluster_network[0].host_prefix == 14


def test_a_value_that_is_read_as_another_is_told(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    _config, _hosts, files = generated()
    domain = b"baseDomain: test.node0.example"
    files = files | {names.DEPLOYMENT: files[names.DEPLOYMENT].replace(domain, b"baseDomain: 0x10")}
    assert read.read_manifests(files, RELEASE, "X").deployment.spec.base_domain == "16"
    [note] = {message for message in caplog.messages if " is read as " in message}
    assert note.startswith(f"{names.DEPLOYMENT}: line ")
    assert "spec.baseDomain: 0x10 is read as 16, since" in note


@pytest.mark.parametrize(
    ("name", "path", "value", "shown"),
    [
        (names.INSTALL, "spec.mastersSchedulable", True, ": true"),
        (names.INSTALL, "spec.holdInstallation", True, ": true"),
        (names.INFRA_ENV, "spec.kernelArguments", [{"operation": "append", "value": "a=b"}], ""),
        (names.INFRA_ENV, "spec.ignitionConfigOverride", '{"passwd": {}}', ""),
        (names.DEPLOYMENT, "spec.manageDNS", True, ": true"),
        (names.DEPLOYMENT, "spec.platform", {"agentBareMetal": {}}, None),
        (names.INFRA_ENV, "spec.sshAuthorizedKey", "", None),
    ],
)
def test_fields_that_nobody_reads_are_told(name, path, value, shown, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("installer"), "propagate", True)
    _config, _hosts, files = generated()
    read.read_manifests(edited(files, name, path, value), RELEASE, "X")
    notes = {message for message in caplog.messages if message.endswith(" is ignored")}
    assert notes == (set() if shown is None else {f"{name}: {path}{shown} is ignored"})


@pytest.mark.parametrize("spelling", ["none", "None"])
def test_old_spelling_and_defaults(spelling):
    _config, _hosts, files = generated()
    files = edited(files, names.INSTALL, "spec.platformType", spelling)
    files = edited(files, names.INSTALL, "spec.networking.userManagedNetworking", ...)
    files = edited(files, names.INFRA_ENV, "spec.cpuArchitecture", "arm64")
    manifests = read.read_manifests(files, RELEASE, "X")
    assert manifests.install.spec.platform_type == "None"
    assert manifests.install.spec.networking.user_managed_networking is True
    pool = ztp.install_config(manifests, (), "").control_plane
    assert pool is not None
    assert pool.architecture == "arm64"


@pytest.mark.parametrize(
    ("masters", "managed_by_user", "platform"),
    [(1, ..., "none"), (1, False, "none"), (3, ..., "baremetal"), (3, True, "none"), (3, False, "baremetal")],
)
def test_manifests_without_a_platform(masters, managed_by_user, platform):
    """As assisted-service chooses one (installer.md §2.1)."""
    _config, _hosts, files = generated()
    files = edited(files, names.INSTALL, "spec.platformType", ...)
    files = edited(files, names.INSTALL, "spec.provisionRequirements.controlPlaneAgents", masters)
    files = edited(files, names.INSTALL, "spec.networking.userManagedNetworking", managed_by_user)
    manifests = read.read_manifests(files, RELEASE, "X")
    assert ztp.install_config(manifests, (), "").platform.name == platform
    # As the live host registers it
    registered = client.cluster_params(client.parse(completed(manifests)), "r.example/a@sha256:0", "4.18.0")
    assert registered["platform"] == {"type": platform}
    assert registered["user_managed_networking"] == (platform == "none")


@pytest.mark.parametrize("name", [n for n in names.MANIFESTS if n != names.NMSTATE])
def test_every_file_but_nmstate_and_the_image_set_is_needed(name):
    _config, _hosts, files = generated()
    without = {k: v for k, v in files.items() if k != name}
    if name == names.IMAGE_SET:
        read.read_manifests(without, RELEASE, "X")
    for broken in ([without] if name != names.IMAGE_SET else []) + [{**files, name: b""}]:
        with pytest.raises(InstallerError, match="missing configuration or manifest file"):
            read.read_manifests(broken, RELEASE, "X")
    with pytest.raises(InstallerError, match=f"failed to unmarshal {name}"):
        read.read_manifests({**files, name: b"a: [\n"}, RELEASE, "X")
    with pytest.raises(InstallerError, match="not UTF-8"):
        read.read_manifests({**files, name: b"\xff\xfe"}, RELEASE, "X")


def test_all_errors_at_once():
    _config, _hosts, files = generated()
    files = edited(files, names.INSTALL, "spec.platformType", "Cloud")
    files = edited(files, names.INFRA_ENV, "spec.cpuArchitecture", "vax")
    with pytest.raises(InstallerError) as caught:
        read.read_manifests(files, RELEASE, "X")
    assert str(caught.value).startswith("failed to fetch X: [failed to load asset ")
    assert "Cloud" in str(caught.value)
    assert "vax" in str(caught.value)


def test_networks_of_agent_config_count_where_no_manifest_has_any(caplog):
    _config, hosts, files = generated()
    without = read.read_manifests({k: v for k, v in files.items() if k != names.NMSTATE}, RELEASE, "X")
    assert ztp.with_networks(hosts, without) == hosts
    strange = replace(hosts[0], interfaces=(Interface("q", "aa:bb:cc:00:00:02"),))
    assert ztp.with_networks((strange,), read.read_manifests(files, RELEASE, "X"))[0].network_config is None
    assert "hosts[0].networkConfig of agent-config.yaml is ignored" in caplog.text


def test_manifests_are_passed_on_with_their_defaults():
    _config, _hosts, files = generated()
    manifests = {**files, names.DEPLOYMENT: files[names.DEPLOYMENT] + b"# mine\n"}
    assert completed(read.read_manifests(manifests, RELEASE, "X")) == manifests
    before = edited(files, names.INSTALL, "spec.platformType", "none")
    before = edited(before, names.INSTALL, "spec.networking.userManagedNetworking", ...)
    before = edited(before, names.INFRA_ENV, "spec.cpuArchitecture", "arm64")
    before = edited(before, names.PULL_SECRET, "stringData", {read.SECRET_KEY: '{"auths":{"r":{"auth":"dTpw"}}}'})
    before[names.NMSTATE] = b"---\n"
    after = completed(read.read_manifests(before, RELEASE, "X"))
    documents = {name: yaml.safe_load(data) for name, data in after.items()}
    assert documents[names.INSTALL] == yaml.safe_load(files[names.INSTALL])
    assert documents[names.INFRA_ENV]["spec"]["cpuArchitecture"] == "aarch64"
    assert documents[names.PULL_SECRET]["stringData"][read.SECRET_KEY].startswith('{\n  "auths": {')
    assert names.NMSTATE not in after


def test_networks_find_their_hosts_by_any_mac():
    _config, _hosts, files = generated()
    manifests = read.read_manifests(files, RELEASE, "X")
    mine = Host(
        hostname="a",
        role="master",
        interfaces=(Interface("z", "aa:bb:cc:00:00:01"), Interface("y", "52:54:00:6E:30:00")),
    )
    other = Host(hostname="b", interfaces=(Interface("q", "aa:bb:cc:00:00:02"),), network_config={"interfaces": []})
    first, second = ztp.with_networks((mine, other), manifests)
    assert (first.hostname, first.network_config) == ("a", manifests.nmstate[0].spec.config)
    assert first.interfaces == (Interface("z", "aa:bb:cc:00:00:01"), Interface("eth0", "52:54:00:6e:30:00"))
    assert (second.hostname, second.network_config) == ("b", None)
    (alone,) = ztp.with_networks((), manifests)
    assert (alone.hostname, alone.interfaces) == ("", (Interface("eth0", "52:54:00:6e:30:00"),))


def test_mirror_round_trip():
    install = {**SNO, "imageDigestSources": [
        {"source": "quay.io/a/b", "mirrors": ["m.example:5000/x", "n.example/y"]},
        {"source": "release.example/c", "mirrors": ["m.example:5000/z"], "sourcePolicy": "NeverContactSource"},
    ]}  # fmt: skip
    config = parse_install_config(text(install))
    files = mirror.mirror_files(config)
    assert set(files) == {"mirror/registries.conf", "mirror/ca-bundle.crt"}
    sources, bundle = mirror.read_mirror(files)
    assert [(s.source, s.mirrors, s.source_policy) for s in sources] == [
        ("quay.io/a/b", ("m.example:5000/x", "n.example/y"), ""),
        ("release.example/c", ("m.example:5000/z",), "NeverContactSource"),
    ]
    assert bundle == ""
    assert mirror.read_mirror(mirror.mirror_files(parse_install_config(text(SNO)))) == ((), "")


WILDCARD = "[[registry]]\nprefix = '*.example.com'\n[[registry.mirror]]\nlocation = 'm.example/x'\n"
REWRITING = "[[registry]]\nprefix = 'quay.io/a'\nlocation = 'in.example/b'\n"


@pytest.mark.parametrize(
    ("conf", "source", "pulled"),
    [
        (WILDCARD, ("*.example.com", ("m.example/x",), ""), "a.b.example.com:5000/c"),
        (REWRITING, ("quay.io/a", ("in.example/b",), "NeverContactSource"), "quay.io/a/c"),
        (f"{REWRITING}[[registry.mirror]]\nlocation = 'm.example/x'\n",
         ("quay.io/a", ("m.example/x", "in.example/b"), "NeverContactSource"), "quay.io/a"),
        (f"{REWRITING}blocked = true\n[[registry.mirror]]\nlocation = 'm.example/x'\n",
         ("quay.io/a", ("m.example/x",), "NeverContactSource"), "quay.io/a"),
    ],
)  # fmt: skip
def test_prefixes_of_registries_conf(conf, source, pulled, tmp_path):
    """containers-registries.conf(5): a wildcard needs no location, and another location than the prefix is a place."""
    (read_source,) = mirror.read_registries(conf)
    assert (read_source.source, read_source.mirrors, read_source.source_policy) == source
    tool = DigestSource(read_source.source, read_source.mirrors, bool(read_source.source_policy))
    assert tool.covers(pulled)
    assert not tool.covers("quay.io/ab")
    # What is made of it for the registry tools says the same; so does what the service makes of the file.
    written = registries_conf([tool])
    assert mirror.read_registries(written) == (read_source,)
    assert ('\nprefix = "' in written) == source[0].startswith("*."), "no location has a wildcard"
    (tmp_path / "registries.conf").write_text(conf)
    policy = {"sourcePolicy": source[2]} if source[2] else {}
    assert digest_sources(tmp_path / "registries.conf") == [{"source": source[0], "mirrors": [*source[1]], **policy}]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({names.REGISTRIES: b"= x"}, "failed to load mirror/registries.conf file"),
        ({names.REGISTRIES: b"registry = 3"}, "registry is not a list"),
        ({names.REGISTRIES: b"[[registry]]\nprefix = 'x'"}, "registry 0 has no location"),
        ({names.REGISTRIES: b"[[registry]]\nlocation = 'x'\nmirror = 1"}, "mirror is not a list"),
        ({names.REGISTRIES: b"\xff"}, "not UTF-8"),
        ({names.CA_BUNDLE: b"nonsense"}, "failed to load mirror/ca-bundle.crt file: invalid block"),
    ],
)
def test_bad_mirror(files, message):
    with pytest.raises(ConfigError, match=message):
        mirror.read_mirror(files)


def refusal(use):
    """Return the input's fault, empty if there is none; any other exception gets through."""
    try:
        use()
    except InstallerError as error:
        return str(error)
    return ""


_FILES = generated()[2]
_NAMES = sorted(_FILES)
_BASE = {name: [d for d in yaml.safe_load_all(data) if d] for name, data in _FILES.items()}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _paths(node, here=()):
    yield here
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _paths(value, (*here, key))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_mutated_manifests_give_a_cluster_or_one_line(data):
    documents = copy.deepcopy(_BASE)
    changed_files = {}
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(_NAMES))
        path = data.draw(st.sampled_from(sorted(_paths(documents[name]), key=str)))
        value = data.draw(values)
        if not path:
            documents[name] = [value]
        else:
            node = documents[name]
            for part in path[:-1]:
                node = node[part]
            node[path[-1]] = value
        changed_files[name] = yaml.dump_all(documents[name], Dumper=yaml.CSafeDumper).encode()
    files = {**_FILES, **changed_files}

    def use():
        manifests = read.read_manifests(files, RELEASE, "X")
        ztp.install_config(manifests, (), "")
        ztp.with_networks((), manifests)

    assert "\n" not in refusal(use)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(_NAMES + list(names.MIRROR)), st.binary(max_size=200))
def test_garbage_files(name, junk):
    files = {**_FILES, name: junk}

    def use():
        read.read_manifests(files, RELEASE, "X")
        mirror.read_mirror(files)

    assert "\n" not in refusal(use)
