"""Decoding as Go's encoding/json and sigs.k8s.io/yaml do it, which install-configs are written for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.common.formats.yamltext import go_text
from installer.config.load import parse_agent_config, parse_install_config
from installer.errors import ConfigError
from installer.testing.create.inputs_kit import COMPACT, SNO, changed, text


def other_case(data: Any) -> Any:
    if isinstance(data, dict):
        return {key.swapcase(): other_case(value) for key, value in data.items()}
    return [other_case(item) for item in data] if isinstance(data, list) else data


@pytest.mark.parametrize("base", [SNO, COMPACT])
def test_a_field_matches_whatever_its_case(base: dict[str, Any]) -> None:
    # What is in the pull secret is JSON of its own.
    assert parse_install_config(text(other_case(base))) == parse_install_config(text(base))


def test_of_two_spellings_the_last_of_the_alphabet_counts() -> None:
    source = text(SNO).replace("baseDomain: ", "BASEDOMAIN: a.example\nbasedomain: b.example\nbaseDomain: ")
    assert parse_install_config(source).base_domain == "b.example"


MERGED = "x: &pool\n  name: worker\n  replicas: 0\n"


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        ("<<: {name: worker, replicas: 0}", None),
        ("<<: [{name: worker}, {replicas: 0}]", None),
        ("<<: {name: worker}\n  <<: {replicas: 0}", None),
        ("<<: {name: worker, replicas: 3}\n  replicas: 0", 'key "replicas" already set in map'),
        ("replicas: 0\n  <<: {replicas: 0}", 'key "replicas" already set in map'),
        ("<<: [{replicas: 0}, {replicas: 0}]", 'key "replicas" already set in map'),
        ("<<: 5", "map merge requires map or sequence of maps as the value"),
    ],
)
def test_merge_keys_and_duplicate_keys(pool: str, problem: str | None) -> None:
    source = text({key: value for key, value in SNO.items() if key != "compute"}) + f"compute:\n- {pool}\n"
    if problem is None:
        [machine_pool] = parse_install_config(source).compute
        assert (machine_pool.name, machine_pool.replicas) == ("worker", 0)
        return
    with pytest.raises(ConfigError) as caught:
        parse_install_config(source)
    assert problem in str(caught.value)


def test_duplicate_keys_in_documents_of_any_form() -> None:
    card = "{name: a, interfaces: [{macAddress: 52:54:00:00:00:01}], networkConfig: {interfaces: [MERGED]}}"
    source = f"apiVersion: v1beta1\nrendezvousIP: 10.0.0.1\nx: &a {{name: eno1, mtu: 1500}}\nhosts: [{card}]\n"
    with pytest.raises(ConfigError) as caught:
        parse_agent_config(source.replace("name: a, ", "hostname: a, ").replace("MERGED", "{<<: *a, mtu: 9000}"))
    assert 'key "mtu" already set in map' in str(caught.value)


@pytest.mark.parametrize(
    ("written", "replicas"), [("3.0", 3), ("3e0", 3), ("0x3", 3), ("3.5", None), ("true", None), ('"3"', None)]
)
def test_numbers(written: str, replicas: int | None) -> None:
    source = text(changed(COMPACT, "controlPlane.replicas", "REPLICAS")).replace("REPLICAS", written)
    if replicas is not None:
        assert parse_install_config(source).masters == replicas
        return
    with pytest.raises(ConfigError, match=r"controlPlane\.replicas: must be a number, is"):
        parse_install_config(source)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("networking.clusterNetworkMTU", 1 << 32),
        ("networking.clusterNetwork", [{"cidr": "10.128.0.0/14", "hostPrefix": 1 << 31}]),
        ("controlPlane.replicas", 1 << 64),
    ],
)
def test_numbers_have_a_width(path: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"must be a number of type u?int(32|64), is"):
        parse_install_config(text(changed(SNO, path, value)))


def test_what_follows_the_first_document_is_not_read() -> None:
    assert parse_install_config(text(SNO) + "---\na: [\n") == parse_install_config(text(SNO))


def test_metadata_may_have_what_kubernetes_objects_have() -> None:
    meta = {"name": "a", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["x"], "generation": 2}
    assert parse_install_config(text(changed(SNO, "metadata", meta))).metadata.name == "a"


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_kind_and_version_are_texts_as_they_stand(field: str) -> None:
    for parse, base in ((parse_install_config, SNO), (parse_agent_config, {"apiVersion": "v1beta1"})):
        with pytest.raises(ConfigError, match=f"{field}: must be a string, is"):
            parse(text({**base, field: 5}))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("192.168.111.0/024", "192.168.111.0/24"),
        ("FD2E:6F44:5DD8:0::/64", "fd2e:6f44:5dd8::/64"),
        ("::ffff:192.168.111.0/120", "192.168.111.0/24"),
    ],
)
def test_networks_are_written_as_go_prints_them(written: str, meant: str) -> None:
    networking: dict[str, Any] = {"machineNetwork": [{"cidr": written}]}
    if ":" in meant:
        networking |= {"serviceNetwork": ["fd02::/112"], "clusterNetwork": [{"cidr": "fd01::/48", "hostPrefix": 64}]}
    parsed = parse_install_config(text(changed(SNO, "networking", networking))).networking
    assert parsed is not None
    assert parsed.machine_network[0].cidr == meant


def test_unknown_fields_are_ignored_for_known_invokers(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text({**SNO, "ofTomorrow": 1})
    with pytest.raises(ConfigError, match="failed to parse first occurrence of unknown field: failed to unmarshal"):
        parse_install_config(source)
    monkeypatch.setenv("OPENSHIFT_INSTALL_INVOKER", "hive")
    assert parse_install_config(source) == parse_install_config(text(SNO))
    # What is wrong besides is wrong for them too.
    with pytest.raises(ConfigError, match="must be a number"):
        parse_install_config(text(changed({**SNO, "ofTomorrow": 1}, "controlPlane.replicas", "one")))


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (True, "true"), (False, "false"), (16, "16"), (1.5, "1.5"), (1.1, "1.1"), (4.0, "4"), (1e6, "1e+06"),
        (123456.0, "123456"), (1234567.0, "1.234567e+06"), (0.0001, "0.0001"), (0.00001, "1e-05"), (-2.5, "-2.5"),
        (float("inf"), "+Inf"), (float("nan"), "NaN"), (1e300, "+Inf"), (3.14159265358979, "3.1415927"), (0.0, "0"),
    ],
)  # fmt: skip
def test_values_as_go_prints_them(value: Any, printed: str) -> None:
    assert go_text(value) == printed


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_printed_number_is_the_same_number(value: float) -> None:
    assert float(go_text(value)) == pytest.approx(value, rel=1e-6)
