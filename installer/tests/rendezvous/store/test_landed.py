"""A database that an earlier version of the service wrote (landed.json): opened, shown as before, kept by this one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.assisted.enums import NEVER, LogsState, MediaStatus, PreparationStatus, Result
from installer.assisted.errors import StoreError
from installer.rendezvous.api import fields
from installer.rendezvous.store.database import Store
from installer.rendezvous.store.model import Host, InfraEnv, decode

# Schema, rows and what the API showed of them, written by the version before the store's fields had types of their own;
# but for the name of a host that has none, which has been its id since (assisted-service, hostutil.GetHostnameForMsg).
LANDED = json.loads((Path(__file__).parent / "landed.json").read_text())
DAMAGED = ("inventory", "connectivity", "ntp_sources", "disks_info", "validations_info", "tang_connectivity")


def written(path: Path, **damage: Any) -> Path:
    """Return the database; ``damage``: fields of each host that are others."""
    database = sqlite3.connect(path)
    database.executescript(LANDED["schema"])
    for table, rows in LANDED["tables"].items():
        for row in rows:
            doc = row[-1] if table != "hosts" else json.dumps(json.loads(row[-1]) | damage)
            database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", [*row[:-1], doc.encode()])
    database.commit()
    database.close()
    return path


@pytest.fixture
def landed(tmp_path: Path) -> Iterator[Store]:
    store = Store(written(tmp_path / "assisted.db"))
    yield store
    store.close()


def filled(data: Any) -> Any:
    """Drop empty values of an answer: by now they are left out, as upstream does (api/test_fields.py)."""
    if isinstance(data, list):
        return [filled(item) for item in data]
    return (
        {key: filled(item) for key, item in data.items() if item not in ("", 0, NEVER)}
        if isinstance(data, dict)
        else data
    )


def sent(data: Any) -> Any:
    return filled(json.loads(msgspec.json.encode(data)))


def the(store: Store, end: str) -> Host:
    return next(host for host in store.hosts() if host.id.endswith(end))


def test_what_the_api_shows_is_what_it_showed(landed: Store) -> None:
    shown = LANDED["shown"]
    assert [sent(fields.host(item)) for item in landed.hosts()] == filled(shown["hosts"])
    assert [sent(fields.cluster(item)) for item in landed.clusters()] == filled(shown["clusters"])
    assert [sent(fields.infra_env(item)) for item in landed.infra_envs()] == filled(shown["infra_envs"])


INSIDE = """
sent_steps sent_args user_hostname user_disk installation_disk skipped_disks verified_vips clock_gap step_errors
fencing_credentials ignition_endpoint_token ignition_endpoint_http_headers machine rival contested_at added
"""
# Fields that came later.
NEW: dict[str, dict[str, Any]] = {
    "hosts": {
        **dict.fromkeys(("machine", "rival", "contested_at")),
        "added": False,
        "ignition_endpoint_token": "",
        "ignition_endpoint_http_headers": {},
    },
    "clusters": {**dict.fromkeys(("request", "join_url", "join_ca"), ""), "ignition_endpoint": {}},
}


def test_each_field_of_a_host_is_shown_or_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field is neither until somebody has decided."""
    monkeypatch.setattr(fields, "present", lambda data, always=(): {**data})
    host = Host(id="h", infra_env_id="e")
    stored = {field.name for field in msgspec.structs.fields(Host)}
    assert stored - fields.host(host).keys() == set(INSIDE.split())


def test_what_is_kept_is_shown_the_same_after_the_next_start(landed: Store) -> None:
    """Only lists that stood in texts are written in another form; all else is as it was."""
    with landed.change():
        for host in landed.hosts():
            landed.put_host(msgspec.structs.replace(host, status_info=host.status_info + "."))
        for cluster in landed.clusters():
            landed.put_cluster(msgspec.structs.replace(cluster, status_info=cluster.status_info + "."))
    lists = {"disks_to_be_formatted", "skip_formatting_disks", "skipped_disks"}
    for table, later in (("hosts", {}), ("clusters", {"ntp_sources": "", "openshift_cluster_id": ""})):
        documents = [json.loads(row[0]) for row in landed.db.execute(f"SELECT doc FROM {table} ORDER BY rowid")]
        before = [json.loads(row[-1]) for row in LANDED["tables"][table]]
        assert [item | dict.fromkeys(lists) for item in documents] == [
            later | NEW[table] | item | {"status_info": item["status_info"] + "."} | dict.fromkeys(lists)
            for item in before
        ]
    again = Store(landed.path)
    try:
        assert again.hosts() == landed.hosts()
        assert again.infra_envs() == landed.infra_envs()
        assert [",".join(disk.id for disk in host.skipped_disks) for host in again.hosts()] == [
            host["skip_formatting_disks"] for host in LANDED["shown"]["hosts"]
        ]
    finally:
        again.close()


def test_lists_stored_as_texts_by_older_versions_are_read() -> None:
    networks = [{"network_yaml": "interfaces: []", "mac_interface_map": []}]
    arguments = [{"operation": "append", "value": "x=1"}]
    row = {"id": "e", "name": "e", "cluster_id": "c", "static_network_config": json.dumps(networks)}
    row |= {"kernel_arguments": json.dumps(arguments)}
    infra_env = decode(json.dumps(row).encode(), InfraEnv)
    assert msgspec.to_builtins(infra_env.static_network_config) == networks
    assert msgspec.to_builtins(infra_env.kernel_arguments) == arguments
    host = decode(b'{"id": "h", "infra_env_id": "e", "name": "h", "disks_to_be_formatted": "/dev/sda,/dev/sdb"}', Host)
    assert host.disks_to_be_formatted == ["/dev/sda", "/dev/sdb"]


@pytest.mark.parametrize("value", ["[", 7, [7]])
def test_a_field_that_no_version_wrote_is_refused(value: Any) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(json.dumps({"id": "e", "name": "e", "static_network_config": value}).encode(), InfraEnv)


@pytest.mark.parametrize("value", [[7], [{"id": 7}], None, 7])
def test_disks_that_no_version_wrote_are_told_in_a_line(tmp_path: Path, value: Any) -> None:
    with pytest.raises(StoreError, match=r"cannot be read: Expected `.+`, got `.+`") as caught:
        Store(written(tmp_path / "assisted.db", skipped_disks=value))
    assert "\n" not in str(caught.value)


def test_what_the_documents_mean(landed: Store) -> None:
    host = the(landed, "77")
    assert host.inventory.value is not None
    assert (host.inventory.value.hostname, len(host.inventory.value.interfaces)) == ("host-0", 1)
    assert json.loads(host.inventory.nics)[0]["ip_addresses"] == ["192.168.111.80"]
    assert host.validations_info.results()["connected"] is Result.SUCCESS
    findings = host.connectivity.findings
    assert findings.reached("l2_connectivity", "192.168.111.0/24") == {"a"}
    assert (findings.rtt, findings.loss, findings.broken_mtu) == ({"a": 0.25}, {"a": 1.5}, [("ens3", "192.168.111.80")])
    api_vip, tang, names = host.api_vip_connectivity, host.tang_connectivity, host.domain_name_resolutions
    assert api_vip.value is not None
    assert (api_vip.value.is_success, api_vip.value.download_error) == (False, "refused")
    assert tang.value is not None
    assert [answer.tang_url for answer in tang.value.tang_server_response or []] == ["http://t"]
    assert [(item.network, item.free_addresses) for item in host.free_addresses.value or []] == [
        ("192.168.111.0/24", ["192.168.111.9"])
    ]
    assert [(item.vip, item.verification) for item in host.verified_vips.value or []] == [
        ("192.168.111.9", "succeeded")
    ]
    assert [source.source_state for source in host.ntp_sources.value or []] == ["synced", "unreachable"]
    speed = host.disks_info.speed("/dev/sda")
    assert (speed.tested, speed.exit_code, speed.error, speed.speed_ms) == (True, 2, "no", None)
    assert host.disks_info.speed("/dev/other").tested is False
    assert [(image.name, image.result, image.time) for image in host.images_status.value or []] == [
        ("i", "failure", None),
        ("j", "success", 2.0),
    ]
    assert names.value is not None
    assert [item.addresses for item in names.value.resolutions or []] == [["10.0.0.1"]]
    assert host.installer_args.value == ["--append-karg", "ip=dhcp"]
    assert (host.media_status, host.logs_info) == (MediaStatus.DISCONNECTED, LogsState.COMPLETED)
    assert landed.clusters()[0].last_preparation.status is PreparationStatus.SUCCESS
    # Decoded once.
    assert the(landed, "77").inventory.value is host.inventory.value


@pytest.mark.parametrize("text", ["{", "[[]]", "7"])
def test_documents_that_cannot_be_read_are_none_and_are_shown_as_they_are(tmp_path: Path, text: str) -> None:
    store = Store(written(tmp_path / "assisted.db", **dict.fromkeys(DAMAGED, text)))
    host = the(store, "77")
    assert [getattr(host, name).value for name in DAMAGED if name != "connectivity"] == [None] * (len(DAMAGED) - 1)
    assert (host.connectivity.findings.count, host.inventory.nics, host.validations_info.results()) == (0, "[]", {})
    assert [sent(fields.host(host))[name] for name in DAMAGED] == [text] * len(DAMAGED)
    store.close()


def test_no_text_of_a_document_says_what_is_in_it(landed: Store) -> None:
    host = the(landed, "77")
    reprs = " ".join(repr(getattr(host, name)) for name in host.__struct_fields__)
    assert "192.168.111" not in reprs
    assert repr(host.inventory) == f"HostInventory({len(host.inventory.text)} characters)"
