"""A secret that stands where it does not belong is in no error, and so in no log."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest

from installer import logs
from installer.common.formats import YamlError
from installer.common.formats.yamltext import CORE
from installer.common.formats.yamltext import load as load_yaml
from installer.config.fielderror import raise_if_any
from installer.config.load import parse_agent_config, parse_install_config
from installer.config.rules import agent as rules_agent
from installer.errors import InstallerError, NetworkConfigError
from installer.network.document import load as load_network
from installer.network.host import host_network_files
from installer.testing.create.inputs_kit import AGENT, COMPACT, FENCED, NUTANIX, SNO, VSPHERE, changed, text

SECRET = "Xq7canaryZ"
BMC = {"address": "redfish-virtualmedia://10.9.0.1/x", "username": "u", "password": "@@"}
WITH_BMC = changed(
    COMPACT, "platform.baremetal.hosts", [{"name": "a", "bootMACAddress": "52:54:00:00:00:01", "bmc": BMC}]
)
BMC_OF_AGENT = changed(AGENT, "hosts.0.BMC", BMC)
# A worker's pool is not fenced: the error has the whole of it.
FENCED_WORKER = changed(FENCED, "compute.0.fencing", copy.deepcopy(FENCED["controlPlane"]["fencing"]))
_HOSTS = "platform.baremetal.hosts.0"
_CREDENTIALS = "controlPlane.fencing.credentials"

Parse = Callable[[str], Any]


def parse_hosts(source: str) -> None:
    """agent-config with its hosts, whose rules are looked at later."""
    config = parse_agent_config(source)
    raise_if_any("", list(rules_agent.hosts(config, config.hosts)))


#: (what reads it, base, field, its value as YAML)
PLACES: dict[str, tuple[Parse, dict[str, Any], str, str]] = {
    "an alias": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc.password", f"*{SECRET}"),
    "an alias to itself": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc", f"&{SECRET} [*{SECRET}]"),
    "a tag that does not fit": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc.password", f"!!int {SECRET}"),
    "no base64": (parse_agent_config, BMC_OF_AGENT, "hosts.0.BMC.password", f"!!binary {SECRET}"),
    "a BMC without names": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc", SECRET),
    "a BMC of agent-config without names": (parse_agent_config, BMC_OF_AGENT, "hosts.0.BMC", SECRET),
    "no list of credentials": (parse_install_config, FENCED, _CREDENTIALS, SECRET),
    "a list of it": (parse_install_config, FENCED, _CREDENTIALS, f"[{SECRET}]"),
    "a proxy without names": (parse_install_config, SNO, "proxy", SECRET),
    "vCenters without names": (parse_install_config, VSPHERE, "platform.vsphere.vcenters", f"[{SECRET}]"),
    "no blank behind the colon": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc", f"{{password:{SECRET}}}"),
    "nor where it is no password": (parse_agent_config, BMC_OF_AGENT, "hosts.0.BMC", f"{{auths:{SECRET}}}"),
    "the same twice": (parse_install_config, WITH_BMC, f"{_HOSTS}.bmc", f"{{password:{SECRET}, password:{SECRET}}}"),
    "a key of a mapping that stands for the pull secret": (parse_install_config, SNO, "pullSecret", f"{{{SECRET}: }}"),
    "the same twice within the pull secret": (
        parse_install_config,
        SNO,
        "pullSecret",
        f"{{auths: {{a.example: {{auth: {{{SECRET}: 1, {SECRET}: 2}}}}}}}}",
    ),
    "the same twice within a password": (
        parse_install_config,
        WITH_BMC,
        f"{_HOSTS}.bmc.password",
        f"{{{SECRET}: , {SECRET}: }}",
    ),
    "a registry of a pull secret": (parse_install_config, SNO, "pullSecret", f"'{{\"auths\": {{\"{SECRET}\": 1}}}}'"),
    "a registry without a login": (parse_install_config, SNO, "pullSecret", f"'{{\"auths\": {{\"{SECRET}\": {{}}}}}}'"),
    "a pool's fencing": (parse_install_config, FENCED_WORKER, "compute.0.fencing.credentials.0.password", SECRET),
    "a network in one word": (
        parse_hosts,
        changed(AGENT, "hosts.0.role", "worker"),
        "hosts.0.networkConfig",
        SECRET,
    ),
    "a mirror's login": (
        parse_install_config,
        SNO,
        "imageDigestSources",
        f"[{{source: a.example/b, mirrors: ['user:{SECRET}@host']}}]",
    ),
    "a source's login": (parse_install_config, SNO, "imageDigestSources", f"[{{source: 'user:{SECRET}@host'}}]"),
    "a mirror's login, with a slash": (
        parse_install_config,
        SNO,
        "imageDigestSources",
        f"[{{source: a.example/b, mirrors: ['user:{SECRET}/x@host.example/d']}}]",
    ),
    "a BMC's login": (
        parse_install_config,
        FENCED,
        f"{_CREDENTIALS}.0.address",
        f"ipmi://user:{SECRET}@10.9.0.1",
    ),
    "a BMC's login, without a scheme": (
        parse_install_config,
        FENCED,
        f"{_CREDENTIALS}.0.address",
        f"user:{SECRET}@host",
    ),
    "a BMC twice": (
        parse_install_config,
        COMPACT,
        "platform.baremetal.hosts",
        f"[{', '.join([f'{{bmc: {{address: user:{SECRET}@host}}}}'] * 2)}]",
    ),
    "Prism Central's login": (
        parse_install_config,
        NUTANIX,
        "platform.nutanix.prismCentral.endpoint.address",
        f"user:{SECRET}@host",
    ),
    "a vCenter's login": (
        parse_install_config,
        VSPHERE,
        "platform.vsphere.vcenters.0.server",
        f"user:{SECRET}@host",
    ),
    "a proxy's login that is read as a port": (
        parse_install_config,
        SNO,
        "proxy",
        f"{{httpProxy: 'http://user:{SECRET}#@host/x'}}",
    ),
}  # fmt: skip


def _put(base: dict[str, Any], field: str, value: str) -> str:
    return text(changed(base, field, "HERE")).replace(" HERE\n", f" {value}\n")


def texts_of(error: InstallerError) -> str:
    """As the command's log has it, which takes out what it knows by its look, and as a program would print it."""
    record = logging.LogRecord("x", logging.CRITICAL, "", 0, "%s", (error,), None)
    return f"{logs.Piped(with_time=True).format(record)} {error}"


@pytest.mark.parametrize("place", PLACES)
def test_no_error_of_a_config_shows_the_secret(place: str) -> None:
    parse, base, field, value = PLACES[place]
    with pytest.raises(InstallerError) as caught:
        parse(_put(base, field, value))
    assert SECRET not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("field", "key"), [(f"{_HOSTS}.bmc", "nosuchfield"), (f"{_HOSTS}.bmc", "username: u, username")]
)
def test_a_key_of_a_mapping_that_has_secrets_is_told(field: str, key: str) -> None:
    """As openshift-install tells it: most such keys are mistyped names."""
    with pytest.raises(InstallerError, match=f'"{key.rpartition(" ")[2]}"'):
        parse_install_config(_put(WITH_BMC, field, f"{{{key}: u}}"))


def test_registries_of_a_pull_secret_are_told() -> None:
    for registry in ("quay.io", "registry:5000", "localhost", "[fd00::1]:5000", "https://index.docker.io/v1/"):
        with pytest.raises(InstallerError, match="requires either auth or credsStore") as caught:
            parse_install_config(_put(SNO, "pullSecret", f'\'{{"auths": {{"{registry}": {{}}}}}}\''))
        assert str(caught.value).count(registry) == 2


@pytest.mark.parametrize("section", ["macsec", "wireguard"])
@pytest.mark.parametrize("key", ["mka-cak", "preshared-key"])
def test_no_error_of_an_unsupported_field_shows_the_secret(section: str, key: str) -> None:
    document = load_network(f"interfaces:\n- name: eth0\n  type: ethernet\n  {section}: {{{key}: {SECRET}}}\n")
    with pytest.raises(NetworkConfigError, match=section) as caught:
        host_network_files([{"name": "eth0", "macAddress": "52:54:00:6e:30:00"}], document)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [f"*{SECRET}", f"!{SECRET} x", f"!!{SECRET} x", f"!!int {SECRET}"])
def test_no_error_of_a_network_document_shows_the_secret(value: str) -> None:
    with pytest.raises(NetworkConfigError) as caught:
        load_network(f"interfaces:\n- name: eth0\n  802.1x:\n    private-key-password: {value}\n")
    assert SECRET not in texts_of(caught.value)


@pytest.mark.parametrize(
    "settings",
    [SECRET, f"[{SECRET}]", f"{{identity: [{SECRET}]}}", f"{{eap-methods: {SECRET}}}", f"{{eap-methods: [{SECRET}]}}",
     f"{{pwd: {SECRET}}}", f"{{password:{SECRET}}}", f"{{auths:{SECRET}}}"],
)  # fmt: skip
def test_no_error_of_802_1x_shows_the_secret(settings: str) -> None:
    document = load_network(f"interfaces:\n- name: eth0\n  type: ethernet\n  802.1x: {settings}\n")
    with pytest.raises(NetworkConfigError) as caught:
        host_network_files([{"name": "eth0", "macAddress": "52:54:00:6e:30:00"}], document)
    assert SECRET not in texts_of(caught.value)


@pytest.mark.parametrize("value", [f"*{SECRET}", f"!{SECRET} x", f"!!bool {SECRET}"])
def test_no_error_of_yaml_shows_the_secret(value: str) -> None:
    with pytest.raises(YamlError) as caught:
        load_yaml(f"password: {value}\n", CORE)
    assert SECRET not in texts_of(caught.value)
