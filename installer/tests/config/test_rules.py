"""Rules of install-config.yaml: each row breaks one field of a valid config and says what is to be reported."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.config.load import parse_install_config
from installer.errors import EXIT_FATAL, EXIT_INSTALL_CONFIG, ConfigError
from installer.testing.create.inputs_kit import COMPACT, SNO, changed, text
from installer.testing.create.rules_kit import ROWS, UNREAD, WRAP


@pytest.mark.parametrize(("base", "path", "value", "expected"), ROWS, ids=[f"{row[1]}={row[2]}"[:60] for row in ROWS])
def test_rule(base, path, value, expected):
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(changed(base, path, value)))
    message = str(caught.value)
    assert message.startswith(WRAP)
    assert "\n" not in message
    assert caught.value.exit_code == EXIT_FATAL
    if expected is not None:
        assert message.removeprefix(WRAP).startswith(expected), message
    else:
        assert message.startswith(WRAP + "[")  # several at once


@pytest.mark.parametrize(("base", "path", "value", "expected"), UNREAD, ids=[f"{row[1]}={row[2]}" for row in UNREAD])
def test_what_cannot_be_read_ends_with_a_code_of_its_own(base, path, value, expected):
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(changed(base, path, value)))
    assert str(caught.value).startswith(f"failed to create install config: {expected}"), str(caught.value)
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


def test_valid():
    for base in (SNO, COMPACT):
        config = parse_install_config(text(base))
        assert config.networking is not None
        assert config.networking.service_network == ("172.30.0.0/16",)
        assert config.workers == 0


VALID = [
    (SNO, "baseDomain", "example.com."),
    (SNO, "networking.networkType", "ovnkubernetes"),
    (SNO, "networking", {"machineNetwork": [{"cidr": "fd2e:6f44:5dd8::/64"}], "serviceNetwork": ["fd02::/112"],
                         "clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}]}),
    (SNO, "imageDigestSources", [{"source": "quay.io", "mirrors": ["registry.example:5000/x"],
                                  "sourcePolicy": "NeverContactSource"}]),
    (COMPACT, "platform.baremetal", {"apiVIP": "192.168.111.5", "ingressVIP": "192.168.111.4"}),
    (COMPACT, "platform.baremetal.apiVIP", "192.168.111.5"),
    (COMPACT, "platform.baremetal", {"apiVIPs": ["10.1.1.1"], "ingressVIPs": ["10.1.1.1"],
                                     "loadBalancer": {"type": "UserManaged"}}),
    (SNO, "proxy", {"httpProxy": "http://u:p@proxy.example:3128", "noProxy": ".example,10.0.0.0/8,::1"}),
    (SNO, "pullSecret", '{"auths": {"a": {"credsStore": "x"}}}'),
    (SNO, "bootstrapInPlace", {"installationDisk": "/dev/vda"}),
    (SNO, "metadata.name", 1.10),
]  # fmt: skip


@pytest.mark.parametrize(("base", "path", "value"), VALID, ids=[f"{row[1]}={row[2]}"[:60] for row in VALID])
def test_accepted(base, path, value):
    parse_install_config(text(changed(base, path, value)))


def test_all_errors_of_a_file_at_once_each_once():
    broken = changed(changed(changed(SNO, "baseDomain", "a_b"), "pullSecret", "x"), "metadata.name", "A")
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(broken))
    message = str(caught.value)
    assert message.startswith(WRAP + "[metadata.name: ")
    assert message.endswith("]")
    for path in ("metadata.name: ", "baseDomain: ", "pullSecret: "):
        assert message.count(path) == 1


def test_without_a_platform_its_rules_are_not_applied():
    networks = {
        "serviceNetwork": ["fd02::/112"],
        "clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}],
        "machineNetwork": [{"cidr": "fd00::/64"}],
    }
    broken = changed(changed(SNO, "capabilities", {"baselineCapabilitySet": "None"}), "networking", networks)
    with pytest.raises(ConfigError) as caught:
        parse_install_config(text(changed(broken, "platform", ...)))
    message = str(caught.value)
    for part in (
        'networking: Invalid value: "IPv6": single-stack IPv6 is not supported for this platform',
        "disabling CloudCredential capability available only for baremetal platforms",
        "disabling CloudControllerManager is only supported on",
        "platform: Invalid value",
    ):
        assert part in message, message


def test_unknown_fields_and_types_name_line_and_field():
    source = (
        text(SNO).replace("machineNetwork:", "machineNetwrk:").replace("replicas: 1", "replicas: one") + "extra: 1\n"
    )
    with pytest.raises(ConfigError) as caught:
        parse_install_config(source)
    message = str(caught.value)
    assert message.startswith(
        "failed to create install config: failed to parse first occurrence of unknown field: "
        "failed to unmarshal install-config.yaml: [line "
    )
    assert 'unknown field "machineNetwrk" in networking, did you mean "machineNetwork"?' in message
    assert 'unknown field "extra"' in message
    assert 'controlPlane.replicas: must be a number, is "one"' in message
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


@pytest.mark.parametrize("source", ["a: [", "- 1", "a: 1\na: 2", "? [x]\n: 1", "\tx", "a: *b", "\x00"])
def test_not_a_config(source):
    with pytest.raises(ConfigError) as caught:
        parse_install_config(source)
    where = "failed to unmarshal install-config.yaml: "
    unknown = "failed to parse first occurrence of unknown field: "
    message = str(caught.value).removeprefix("failed to create install config: ").removeprefix(unknown)
    assert message.startswith(where)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == EXIT_INSTALL_CONFIG


def test_the_pull_secret_is_never_shown():
    for secret in ('{"auths":{"h":{"user":""}},"x":"s3cr3t"}', "s3cr3t", '{"auths":{"h":{"password":"s3cr3t"}}}'):
        with pytest.raises(ConfigError) as caught:
            parse_install_config(text(changed(SNO, "pullSecret", secret)))
        assert "s3cr3t" not in str(caught.value)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["10.0.0.0/8", "::/0", "1.2.3.4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({row[1] for row in ROWS if ".0." not in row[1]})


@given(st.sampled_from(FIELDS), values)
def test_any_value_is_accepted_or_refused(path, value):
    with contextlib.suppress(ConfigError):
        parse_install_config(text(changed(COMPACT, path, value)))
