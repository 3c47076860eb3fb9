"""A hub's operations against a real `node0 service` that has no release of its own, over releases in a registry."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError

import pytest

from installer.assisted.errors import BadRequest, ClientError
from installer.hub.service import HubClient, MarkTooOld
from installer.rendezvous.discovery.refusals import Refusals
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.service.rendezvous_kit import CLUSTER
from installer.testing.service.service_kit import MARKS, STATIC, Standalone, standalone

pytestmark = MARKS
OLD, NEW, ODD = "4.17.3", "4.18.0", "4.19.0-rc.1"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("hub"), versions=(OLD, NEW, ODD)) as running:
        yield running


@pytest.fixture(scope="module")
def hub(service: Standalone) -> Iterator[HubClient]:
    client = service.hub()
    yield client
    client.close()


def cluster_of(service: Standalone, **changes: Any) -> dict[str, Any]:
    return {**CLUSTER, "pull_secret": service.pull_secret, "openshift_version": NEW, **changes}


def status_of(call: Any, *args: Any, **named: Any) -> int | None:
    with pytest.raises(ClientError) as refused:
        call(*args, **named)
    return refused.value.status


def test_releases_are_those_that_the_hub_names(service: Standalone, hub: HubClient) -> None:
    """First in this module: the others install what it has named."""
    secret = service.pull_secret
    for version, image in service.releases.items():
        release = hub.put_release(image, secret)
        assert release == {"image": image, "version": version, "cpu_architectures": ["x86_64"]}
    missing = service.releases[OLD].rpartition("@")[0] + "@sha256:" + "0" * 64
    for image, word in ((missing, "0" * 64), ("no image", "image"), ("r.example/a@sha256:1", "image")):
        with pytest.raises(ClientError, match=word) as refused:
            hub.put_release(image, secret)
        assert refused.value.status == 400
    service.kill()
    service.start()
    assert {item["version"] for item in hub.releases()} == {OLD, NEW, ODD}
    versions = hub.openshift_versions()
    assert versions.keys() == {OLD, NEW, ODD}
    assert [name for name, entry in versions.items() if entry.get("default")] == [ODD]


def test_a_refusal_holds_longer_each_time_and_for_that_secret_alone() -> None:
    at, looks = [0.0], []
    refusals = Refusals(lambda: at[0])

    def ask(secret: str = "a", *, fails: bool = True) -> None:
        with refusals.turn("image", secret) as note:
            looks.append(at[0])
            if fails:
                note("no such release")
                raise BadRequest("no such release")

    while at[0] < 1000:
        with pytest.raises(BadRequest, match="no such release"):
            ask()
        at[0] += 0.5
    assert looks == [0, 10, 30, 70, 150, 310, 610, 910]
    ask("b", fails=False)
    at[0] += 300
    ask(fails=False)
    ask(fails=False)


def test_clusters_are_of_the_release_that_they_ask_for(service: Standalone, hub: HubClient) -> None:
    for asked, image in (
        ({"openshift_version": "4.17"}, service.releases[OLD]),
        ({"openshift_version": ODD}, service.releases[ODD]),
        ({"openshift_version": NEW, "ocp_release_image": service.releases[NEW]}, service.releases[NEW]),
    ):
        identity = str(uuid.uuid4())
        cluster = hub.put_cluster(identity, cluster_of(service, **asked))
        assert (cluster["id"], cluster["ocp_release_image"]) == (identity, image)
        hub.delete_cluster(identity)
    for wrong in ({"openshift_version": "4.16"}, {"ocp_release_image": service.releases[OLD]}):
        assert status_of(hub.put_cluster, str(uuid.uuid4()), cluster_of(service, **wrong)) == 400


def test_a_registration_is_repeated_without_harm(service: Standalone, hub: HubClient) -> None:
    """Also by several at once; another body is an update, or a conflict that names what cannot be changed."""
    identity, body = str(uuid.uuid4()), cluster_of(service)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: hub.put_cluster(identity, body), range(16)))
    assert {answer["created_at"] for answer in answers} == {answers[0]["created_at"]}
    assert [cluster["id"] for cluster in hub.clusters()].count(identity) == 1
    hub.update_cluster(identity, {"additional_ntp_source": "ntp.a"})
    # What was asked for is the same: the update stays.
    assert hub.put_cluster(identity, dict(reversed(body.items())))["additional_ntp_source"] == "ntp.a"
    changed = {**body, "ssh_public_key": "", "http_proxy": "http://p.example:3128"}
    assert hub.put_cluster(identity, changed)["http_proxy"] == "http://p.example:3128"
    with pytest.raises(ClientError, match="openshift_version can be chosen only when it is registered") as refused:
        hub.put_cluster(identity, {**changed, "openshift_version": OLD})
    assert refused.value.status == 409
    body = {"name": "e", "pull_secret": service.pull_secret, "cluster_id": identity}
    first = hub.put_infra_env(identity, body)
    assert hub.put_infra_env(identity, body) == first
    assert hub.put_infra_env(identity, {**body, "ntp_sources": "ntp.a"})["ntp_sources"] == "ntp.a"
    assert status_of(hub.put_infra_env, identity, {**body, "cluster_id": str(uuid.uuid4())}) == 409
    hub.delete_infra_env(identity)
    hub.delete_infra_env(identity)
    hub.delete_cluster(identity)
    hub.delete_cluster(identity)
    assert hub.find_cluster(identity) is None
    assert hub.find_infra_env(identity) is None


def test_urls_stay_until_what_they_are_of_changes(service: Standalone, hub: HubClient) -> None:
    identity, name = str(uuid.uuid4()), {"name": "e", "pull_secret": service.pull_secret}
    assert hub.put_infra_env(identity, name | {"openshift_version": "4.17"})["expires_at"].startswith("0001-")

    def url() -> str:
        answer = hub.image_url(identity)
        assert answer.keys() == {"url"}
        assert (hub.find_infra_env(identity) or {})["download_url"] == answer["url"]
        return str(answer["url"])

    first = url()
    with service.fetch(first) as answer:
        assert answer.status == 200
    hub.put_infra_env(identity, name | {"openshift_version": "4.17"})
    hub.update_infra_env(identity, {"ntp_sources": ""})
    service.kill()
    service.start()
    assert url() == first
    seen = {first}
    for change in (
        {"static_network_config": [STATIC]},
        {"kernel_arguments": [{"operation": "append", "value": "quiet"}]},
        {"ssh_authorized_key": CLUSTER["ssh_public_key"]},
        {"proxy": {"http_proxy": "http://p.example:3128"}},
        {"ignition_config_override": '{"ignition": {"version": "3.2.0"}}'},
        {"image_type": "minimal-iso"},
        {"openshift_version": NEW},
    ):
        hub.update_infra_env(identity, change)
        assert url() not in seen, change
        seen.add(url())
    artifacts = hub.boot_artifacts(identity)
    assert artifacts == hub.boot_artifacts(identity)
    for link in artifacts.values():
        with service.fetch(link) as answer:
            assert answer.status == 200
    hub.renew_image_key(identity)
    last = url()
    for link in (*seen, *artifacts.values(), last.replace("state=", "state=0"), last.partition("?")[0]):
        with pytest.raises(HTTPError, match="401"):
            service.fetch(link)
    hub.delete_infra_env(identity)
    with pytest.raises(HTTPError, match="404"):
        service.fetch(last)


def test_the_feed_tells_what_changed_and_goes_on_after_a_restart(service: Standalone, hub: HubClient) -> None:
    everything, mark = hub.changes("", 0)
    assert all(not change.get("deleted") for change in everything)
    assert hub.changes(mark, 0) == ([], mark)
    identity, agent = str(uuid.uuid4()), service.agent()
    seen: list[Any] = []
    reader = service.hub()
    thread = threading.Thread(target=lambda: seen.extend(reader.changes(mark, 30)))
    thread.start()
    hub.put_cluster(identity, cluster_of(service))
    thread.join(20)
    assert seen[0][0] == {"kind": "cluster", "id": identity}
    hub.put_infra_env(identity, {"name": "e", "pull_secret": service.pull_secret, "cluster_id": identity})
    machine = Machine(1, Network())
    agent.register_host(identity, machine.id, "")
    service.kill()
    service.start()
    found, later = hub.changes(mark, 0)
    assert [(change["kind"], change["id"]) for change in found if change["kind"] != "cluster"] == [
        ("infra_env", identity),
        ("host", machine.id),
    ]
    hub.delete_host(identity, machine.id)
    hub.delete_infra_env(identity)
    hub.delete_cluster(identity)
    gone = [(change["kind"], change["deleted"]) for change in hub.changes(later, 0).changes]
    assert sorted(gone) == [("cluster", True), ("host", True), ("infra_env", True)]
    for wrong in ("x-1", "x", f"{mark.partition('-')[0]}-{10**17}"):
        with pytest.raises(MarkTooOld, match="anew"):
            hub.changes(wrong, 0)
    agent.close()
    reader.close()
