"""A hub's operations against a real `node0 service` that has no release of its own, over releases in a registry."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError

import pytest

from installer.assisted.client import AssistedClient
from installer.assisted.enums import Stage
from installer.assisted.errors import BadRequest, ClientError
from installer.hub.service import HubClient, MarkTooOld
from installer.rendezvous.api.handlers.hub import MOST_WAITING
from installer.rendezvous.discovery.refusals import Refusals
from installer.testing.engine.fleet_kit import Machine, Network
from installer.testing.service.rendezvous_kit import CLUSTER, wait_for
from installer.testing.service.service_kit import MARKS, STATIC, Standalone, standalone

pytestmark = MARKS
OLD, NEW, ODD = "4.17.3", "4.18.0", "4.19.0-rc.1"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("hub"), versions=(OLD, NEW, ODD)) as running:
        yield running


@pytest.fixture(scope="module")
def hub(service: Standalone) -> Iterator[HubClient]:
    """Provide the client of a hub that has named all releases."""
    client = service.hub()
    for version, image in service.releases.items():
        release = client.put_release(image, service.pull_secret)
        assert release == {"image": image, "version": version, "cpu_architectures": ["x86_64"]}
    yield client
    client.close()


@pytest.fixture(scope="module")
def agent(service: Standalone) -> Iterator[AssistedClient]:
    client = service.agent()
    yield client
    client.close()


def cluster_of(service: Standalone, **changes: Any) -> dict[str, Any]:
    return {**CLUSTER, "pull_secret": service.pull_secret, "openshift_version": NEW, **changes}


def status_of(call: Any, *args: Any, **named: Any) -> int | None:
    with pytest.raises(ClientError) as refused:
        call(*args, **named)
    return refused.value.status


def test_a_cluster_of_no_release_is_refused(service: Standalone) -> None:
    """Before any release is named; the repetition once it is named succeeds."""
    client = service.hub()
    for wanted in ({}, {"ocp_release_image": service.releases[OLD]}):
        with pytest.raises(ClientError, match="does not know this release; name it by PUT /releases") as refused:
            client.put_cluster(str(uuid.uuid4()), cluster_of(service, **wanted))
        assert refused.value.status == 400
    client.close()


def test_releases_are_those_that_the_hub_names(service: Standalone, hub: HubClient) -> None:
    secret = service.pull_secret
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


def test_the_feed_tells_what_changed_and_goes_on_after_a_restart(
    service: Standalone, hub: HubClient, agent: AssistedClient
) -> None:
    everything, mark = hub.changes("", 0)
    assert all(not change.get("deleted") for change in everything)
    assert hub.changes(mark, 0) == ([], mark)
    identity = str(uuid.uuid4())
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
    name = mark.partition("-")[0]
    for wrong in ("x-1", "x", f"{name}-{10**17}", f"{name}-0-{10**17}"):
        with pytest.raises(MarkTooOld, match="anew"):
            hub.changes(wrong, 0)
    reader.close()


def test_readers_of_the_feed_that_have_gone_keep_no_place(service: Standalone, hub: HubClient) -> None:
    page = hub.changes("", 0)
    # What others have begun is over.
    while page.changes:
        page = hub.changes(page.next, 3)
    mark = page.next
    context = ssl.create_default_context(cafile=str(service.ca))
    path = f"/api/assisted-install/v2/changes?timeout=60&after={mark}"
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {service.token('user')}\r\n\r\n".encode()
    with ExitStack() as readers:
        # One may find the place taken by whoever looks.
        for _ in range(MOST_WAITING + 1):
            sock = socket.create_connection(("127.0.0.1", service.port))
            readers.enter_context(context.wrap_socket(sock, server_hostname="127.0.0.1")).sendall(request)
        wait_for("all places to be taken", lambda: _has_no_place(hub, mark), 20)
        # Nobody waits for what is there, nor without a time.
        assert hub.changes(mark, 0) == ([], mark)
    wait_for("places to be free again", lambda: not _has_no_place(hub, mark), 20)


def _has_no_place(hub: HubClient, mark: str) -> bool:
    try:
        hub.changes(mark, 1)
    except ClientError as error:
        return error.status == 429
    return False


class Host:
    """A machine's agent on an infra-env's image."""

    def __init__(self, agent: AssistedClient, hub: HubClient, infra_env_id: str, number: int) -> None:
        self.agent, self.hub, self.infra_env_id = agent, hub, infra_env_id
        self.machine, self.kinds = Machine(number, Network()), list[str]()
        self.id = self.machine.id
        # The agent that the service wants is the one of the image: another would be replaced.
        self.version = ""

    @property
    def status(self) -> str:
        return str((self.hub.find_host(self.infra_env_id, self.id) or {}).get("status"))

    def register(self) -> None:
        body = {"host_id": self.id, "discovery_agent_version": self.version or "unknown"}
        answer = self.agent.call("POST", f"/infra-envs/{self.infra_env_id}/hosts", body)
        version = json.loads(answer["next_step_runner_command"]["args"][0])["agent_version"]
        if version != self.version:
            self.version = version
            self.register()

    def poll(self) -> str:
        """Answer all steps; what is to be done after them."""
        answer = self.agent.instructions(self.infra_env_id, self.id, self.version)
        for step in answer["instructions"]:
            self.kinds.append(step["step_type"])
            output = self.machine.answer(step["step_type"], step["args"])
            if output is not None:
                body = {"step_type": step["step_type"], "step_id": step["step_id"], "exit_code": 0, "error": ""}
                self.agent.reply(self.infra_env_id, self.id, self.version, {**body, "output": json.dumps(output)})
        return str(answer["post_step_action"])

    def until(self, status: str) -> None:
        wait_for(f"host {self.id} to be {status}", lambda: self.poll() and self.status == status, 60)

    def progress(self, *stages: Stage) -> None:
        for stage in stages:
            self.agent.report_progress(self.infra_env_id, self.id, stage)


def test_one_infra_envs_hosts_are_dealt_to_clusters_and_come_back(
    service: Standalone, hub: HubClient, agent: AssistedClient
) -> None:
    """Booted with another release's agent, bound, installed, joined by a second one, and returned."""
    cluster, infra_env = str(uuid.uuid4()), str(uuid.uuid4())
    hub.put_infra_env(
        infra_env,
        {"name": "late", "pull_secret": service.pull_secret, "openshift_version": OLD, "ntp_sources": "ntp.a"},
    )
    hub.put_cluster(cluster, cluster_of(service))
    first, second = (Host(agent, hub, infra_env, number) for number in (1, 2))
    first.register()
    first.until("known-unbound")
    hub.bind_host(infra_env, first.id, cluster)
    assert (first.poll(), first.status) == ("exit", "binding")
    # Not bound for long: the cluster is taken away.
    hub.delete_cluster(cluster)
    assert (first.poll(), first.status) == ("exit", "unbinding")
    first.register()
    first.until("known-unbound")

    hub.put_cluster(cluster, cluster_of(service))
    hub.bind_host(infra_env, first.id, cluster)
    first.register()
    first.until("known")
    assert status_of(hub.delete_infra_env, infra_env) == 409
    hub.install_cluster(cluster)
    assert status_of(hub.put_cluster, cluster, cluster_of(service, tags="late")) == 409
    assert hub.put_cluster(cluster, cluster_of(service))["status"] == "preparing-for-installation"
    first.until("installing")
    first.poll()
    second.register()
    second.until("known-unbound")
    assert status_of(hub.bind_host, infra_env, second.id, cluster) == 409
    with pytest.raises(ClientError, match="409: cluster is in status installing"):
        hub.allow_add_hosts(cluster)
    assert status_of(hub.delete_host, infra_env, first.id) == 409
    first.progress(Stage.STARTING, Stage.REBOOTING, Stage.JOINED, Stage.DONE)
    first.agent.call("POST", f"/clusters/{cluster}/actions/complete-installation", {"is_success": True})
    assert hub.kubeconfig(cluster, ingress=False)

    for _ in range(2):
        assert hub.allow_add_hosts(cluster)["kind"] == "AddHostsCluster"
    hub.bind_host(infra_env, second.id, cluster)
    second.register()
    second.until("known")
    assert status_of(hub.install_host, infra_env, first.id) == 409
    for pool in ("../worker", "in fra"):
        assert status_of(hub.update_host, infra_env, second.id, {"machine_config_pool_name": pool}) == 400
    hub.update_host(infra_env, second.id, {"machine_config_pool_name": "infra"})
    hub.install_host(infra_env, second.id)
    pointer = hub.download(f"/clusters/{cluster}/downloads/files", {"file_name": f"worker-{second.id}.ign"})
    assert json.loads(pointer)["ignition"]["config"]["merge"][0]["source"].endswith("/config/infra")
    second.poll()
    second.progress(Stage.STARTING, Stage.REBOOTING)
    # A hub sees what follows, so the service does not guess it.
    assert second.status == "installing-in-progress"
    for stage, status in ((Stage.JOINED, "installing-in-progress"), (Stage.DONE, "added-to-existing-cluster")):
        for _ in range(2):
            hub.report_host_joined(infra_env, second.id, stage.value)
            assert second.status == status
    assert "upgrade-agent" not in first.kinds + second.kinds
    assert first.kinds.count("install") == second.kinds.count("install") == 1

    hub.delete_cluster(cluster)
    assert [host.status for host in (first, second)] == ["unbinding-pending-user-action"] * 2
    second.register()
    second.until("known-unbound")
    hub.delete_infra_env(infra_env)
    assert hub.find_infra_env(infra_env) is None


@pytest.mark.slow
def test_an_imported_cluster_is_registered_once(hub: HubClient) -> None:
    identity = str(uuid.uuid4())
    body = {"name": "there", "api_vip_dnsname": "api.there.example", "openshift_cluster_id": identity}
    assert hub.import_cluster(identity, body) == hub.import_cluster(identity, body)
    assert status_of(hub.import_cluster, identity, {**body, "name": "elsewhere"}) == 409
    assert [item["status"] for item in hub.clusters() if item["id"] == identity] == ["adding-hosts"]
    hub.delete_cluster(identity)
