"""Certificate authorities from several sources are joined: none is lost to another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from installer.assisted.errors import BadRequest
from installer.common.certificates import authority
from installer.rendezvous import standalone
from installer.rendezvous.discovery import liveconfig
from installer.rendezvous.prepare import installconfig
from installer.rendezvous.resources import clusters
from installer.rendezvous.settings import Settings
from installer.testing.engine.fleet_kit import Fleet, discovered

MIRROR, ENV, LATE, OVERRIDE = (authority(name).certificate for name in ("mirror", "env", "late", "override"))
replace = msgspec.structs.replace


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return discovered(tmp_path)


def document(fleet: Fleet, tmp_path: Path) -> dict[str, Any]:
    """Return the install-config of the cluster, on a service with a mirror's CA."""
    settings = Settings(mirror_ca_file=tmp_path / "ca.crt", registries_conf=tmp_path / "none")
    hosts = fleet.world.store.hosts(cluster_id=fleet.cluster_id)
    infra_envs = clusters.infra_envs(fleet.world.engine, fleet.cluster_id)
    built: dict[str, Any] = yaml.safe_load(
        yaml.safe_dump(installconfig.build(fleet.cluster, infra_envs, hosts, settings))
    )
    return built


def test_all_sources_of_an_install_config_are_joined(fleet: Fleet, tmp_path: Path) -> None:
    store = fleet.world.store
    assert "additionalTrustBundle" not in document(fleet, tmp_path)
    (tmp_path / "ca.crt").write_text(f"# ours\n{MIRROR}")
    assert document(fleet, tmp_path)["additionalTrustBundle"] == MIRROR
    with store.change():
        infra_env = store.infra_env(fleet.infra_env_id)
        # The infra-env of a host that was bound later belongs to no cluster.
        late = replace(infra_env, id="late", cluster_id=None, additional_trust_bundle=LATE + MIRROR)
        other = replace(late, id="other", additional_trust_bundle="of nobody here")
        for item in (replace(infra_env, additional_trust_bundle=ENV), late, other):
            store.put_infra_env(item)
        host = fleet.host(fleet.machines[0])
        store.put_host(replace(host, id="x", infra_env_id="late"))
    built = document(fleet, tmp_path)
    assert built["additionalTrustBundlePolicy"] == "Always"
    assert built["additionalTrustBundle"] == ENV + LATE + MIRROR
    overrides = {"additionalTrustBundle": OVERRIDE, "additionalTrustBundlePolicy": "Proxyonly"}
    clusters.set_overrides(fleet.world.engine, fleet.cluster_id, json.dumps(overrides))
    built = document(fleet, tmp_path)
    assert built["additionalTrustBundle"] == OVERRIDE + ENV + LATE + MIRROR
    assert built["additionalTrustBundlePolicy"] == "Proxyonly"


def test_a_live_host_trusts_the_mirror_and_its_infra_env(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(MIRROR)
    settings = Settings(mirror_ca_file=tmp_path / "ca.crt", registries_conf=tmp_path / "none")
    infra_env = replace(fleet.world.store.infra_env(fleet.infra_env_id), additional_trust_bundle=ENV)
    files = json.loads(liveconfig.ignition(infra_env, settings, "", ""))["storage"]["files"]
    [source] = [item["contents"]["source"] for item in files if item["path"].endswith("/domain.crt")]
    assert source == liveconfig.File.text("", ENV + MIRROR).entry()["contents"]["source"]


def test_overrides_with_no_certificates_are_refused(fleet: Fleet) -> None:
    with pytest.raises(BadRequest, match="additionalTrustBundle must be PEM certificates"):
        clusters.set_overrides(fleet.world.engine, fleet.cluster_id, '{"additionalTrustBundle": "x"}')


@pytest.mark.parametrize(
    "written",
    [
        MIRROR.replace("CERTIFICATE", "X509 CERTIFICATE"),
        MIRROR.replace("CERTIFICATE-----\n", "CERTIFICATE-----\nX-Of: us-all\n\n", 1),
        MIRROR.replace("\n", "\r\n"),
        f"# caf\xe9\n{MIRROR}",
    ],
)
def test_whatever_the_door_takes_for_a_certificate_is_one_for_go(tmp_path: Path, written: str) -> None:
    bundle = tmp_path / standalone.CA_BUNDLE
    bundle.write_bytes(written.encode("latin-1"))
    standalone.check_mirror(tmp_path)
    assert installconfig.trust_bundle([], Settings(mirror_ca_file=bundle)) == MIRROR
