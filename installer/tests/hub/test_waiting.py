"""`node0 hub wait-for`: what is done, what cannot go on, and what is only on its way."""

import logging
import threading

import pytest

from installer.errors import ConfigError
from installer.hub import waiting
from installer.hub.kube.api import Invalid
from installer.hub.kube.kinds import AGENT_CLUSTER_INSTALL, BARE_METAL_HOST, CLUSTER_DEPLOYMENT, INFRA_ENV, Key
from installer.testing.hub.apiserver import api_server

BUSY = "BMC https://192.0.2.1: log in: still not ready (503: The service is temporarily unavailable.)"


def said(kind, status, reason, message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def of(*conditions, spec=None, **status):
    return {"spec": spec or {}, "status": {"conditions": list(conditions), **status}}


@pytest.mark.parametrize(
    ("judge", "obj", "done", "blocked"),
    [
        (waiting.judge_install, of(said("Completed", "True", "InstallationCompleted")), True, ""),
        (waiting.judge_install, of(said("Completed", "False", "InstallationInProgress")), False, ""),
        (waiting.judge_install, of(said("Completed", "False", "InstallationOnHold")), False, "OnHold"),
        (waiting.judge_install, of(said("SpecSynced", "False", "InputError", "no image set")), False, "no image set"),
        (waiting.judge_install, of(said("SpecSynced", "False", "BackendError")), False, ""),
        (waiting.judge_install, of(said("Failed", "True", "InstallationFailed", "why")), False, "why"),
        (waiting.judge_install, of(said("Validated", "False", "ValidationsFailing")), False, ""),
        (waiting.judge_deployment, of(spec={"installed": True}), True, ""),
        (waiting.judge_deployment, of(said("ProvisionStopped", "True", "X")), False, "ProvisionStopped"),
        (waiting.judge_infra_env, of(said("ImageCreated", "True", "InfraEnvAvailable")), True, ""),
        (waiting.judge_infra_env, of(said("ImageCreated", "False", "ImageCreationError", "a")), False, "a"),
        (waiting.judge_infra_env, of(said("ImageCreated", "Unknown", "MissingClusterDeployment")), False, ""),
        (waiting.judge_agent, of(said("Installed", "True", "InstallationCompleted")), True, ""),
        (waiting.judge_agent, of(said("RequirementsMet", "False", "AgentIsNotApproved")), False, "NotApproved"),
        (waiting.judge_host, of(provisioning={"state": "provisioned"}), True, ""),
        (waiting.judge_host, of(errorType="registration error", errorMessage="no", errorCount=1), False, ""),
        (waiting.judge_host, of(errorType="registration error", errorMessage="no", errorCount=3), False, "no"),
        (waiting.judge_host, of(errorType="registration error", errorMessage=BUSY, errorCount=9), False, ""),
        (waiting.judge_host, {}, False, ""),
    ],
)
def test_verdicts(judge, obj, done, blocked):
    verdict = judge(obj)
    assert (verdict.done, bool(verdict.blocked)) == (done, bool(blocked))
    assert blocked in " ".join(verdict.blocked)


def test_a_deployment_is_blocked_by_what_its_agent_cluster_install_says(caplog, monkeypatch):
    monkeypatch.setattr(waiting, "_SURE", 0.05)
    monkeypatch.setattr(waiting, "_LOOK", 0.01)
    key = Key("n", "one")
    with api_server() as server, caplog.at_level(logging.INFO, "installer.hub"):
        api = server.api()
        api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(key, spec={"clusterInstallRef": {"name": "one"}}))
        install = api.create(AGENT_CLUSTER_INSTALL, AGENT_CLUSTER_INSTALL.new(key))
        conditions = [said("SpecSynced", "False", "InputError", "ClusterImageSet v1 does not exist")]
        api.update_status(AGENT_CLUSTER_INSTALL, install | {"status": {"conditions": conditions}})
        assert waiting.run(api, "cd/one", "n", 5) == waiting.BLOCKED
    assert caplog.messages[-1].startswith("cd/one cannot go on: SpecSynced False InputError: ClusterImageSet v1")


def test_a_deployment_is_blocked_by_the_bmcs_of_its_own_infra_envs_hosts(caplog, monkeypatch):
    monkeypatch.setattr(waiting, "_SURE", 0.05)
    monkeypatch.setattr(waiting, "_LOOK", 0.01)
    key = Key("n", "one")
    with api_server() as server, caplog.at_level(logging.INFO, "installer.hub"):
        api = server.api()
        api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(key, spec={"clusterInstallRef": {"name": "one"}}))
        for name, reference in (("own", key._asdict()), ("other", {"namespace": "n", "name": "two"}), ("free", None)):
            api.create(INFRA_ENV, INFRA_ENV.new(Key("n", name), spec={"clusterRef": reference} if reference else {}))
            bmh = BARE_METAL_HOST.new(Key("n", f"{name}-0"))
            bmh["metadata"]["labels"] = {"infraenvs.agent-install.openshift.io": name}
            status = {"errorType": "registration error", "errorMessage": "it refuses the account", "errorCount": 4}
            api.update_status(BARE_METAL_HOST, api.create(BARE_METAL_HOST, bmh) | {"status": status})
        assert waiting.run(api, "cd/one", "n", 5) == waiting.BLOCKED
    assert "BareMetalHost n/own-0: new, no status: registration error: it refuses the account" in caplog.messages[-1]
    assert "other-0" not in caplog.messages[-1]


@pytest.mark.parametrize("reason", ["others boot", "it has begun", "forbidden"])
def test_a_host_that_cannot_boot_blocks_no_cluster_that_goes_on_without_it(caplog, monkeypatch, reason):
    monkeypatch.setattr(waiting, "_SURE", 0.05)
    monkeypatch.setattr(waiting, "_LOOK", 0.01)
    key = Key("n", "one")
    with api_server() as server, caplog.at_level(logging.INFO, "installer.hub"):
        api = server.api()
        api.create(CLUSTER_DEPLOYMENT, CLUSTER_DEPLOYMENT.new(key, spec={"clusterInstallRef": {"name": "one"}}))
        spec = {"provisionRequirements": {"controlPlaneAgents": 1}}
        install = api.create(AGENT_CLUSTER_INSTALL, AGENT_CLUSTER_INSTALL.new(key, spec=spec))
        if reason == "it has begun":
            conditions = [said("Completed", "False", "InstallationInProgress")]
            api.update_status(AGENT_CLUSTER_INSTALL, install | {"status": {"conditions": conditions}})
        api.create(INFRA_ENV, INFRA_ENV.new(key, spec={"clusterRef": key._asdict()}))
        broken = {"errorType": "power management error", "errorMessage": "it refuses the account", "errorCount": 4}
        for name, status in [("broken", broken), *([("good", {})] if reason == "others boot" else [])]:
            bmh = BARE_METAL_HOST.new(Key("n", name))
            bmh["metadata"]["labels"] = {"infraenvs.agent-install.openshift.io": "one"}
            api.update_status(BARE_METAL_HOST, api.create(BARE_METAL_HOST, bmh) | {"status": status})
        if reason == "forbidden":  # a user's rights end with the namespace
            of_namespace, everywhere = api.list, Invalid(403, "Forbidden", "infraenvs is forbidden")

            def listed(kind, namespace="", labels=""):
                if not namespace:
                    raise everywhere
                return of_namespace(kind, namespace, labels)

            monkeypatch.setattr(api, "list", listed)
        assert waiting.run(api, "cd/one", "n", 0.5) == waiting.NOT_IN_TIME


def test_what_is_missing_may_be_on_its_way(monkeypatch):
    monkeypatch.setattr(waiting, "_LOOK", 0.01)
    key = Key("n", "env")
    with api_server() as server:
        api = server.api()
        made = api.create(INFRA_ENV, INFRA_ENV.new(key))
        conditions = [said("ImageCreated", "False", "ImageCreationError", "Secret n/pull does not exist")]
        old = api.update_status(INFRA_ENV, made | {"status": {"conditions": conditions}})
        new = {"status": {"conditions": [said("ImageCreated", "True", "InfraEnvAvailable")]}}
        threading.Timer(0.3, api.update_status, (INFRA_ENV, old | new)).start()
        assert waiting.run(api, "infraenv/env", "n", 10) == 0


def test_what_does_not_come_ends_with_what_was_last_seen(caplog, monkeypatch):
    monkeypatch.setattr(waiting, "_LOOK", 0.01)
    with api_server() as server:
        api = server.api()
        assert waiting.run(api, "infraenv/env", "n", 0.05) == waiting.NOT_IN_TIME
        assert "InfraEnv n/env does not exist" in caplog.messages[-1]
        server.refusals += [503] * 100
        assert waiting.run(api, "infraenv/env", "n", 0.05) == waiting.NOT_IN_TIME
        assert "refused by the test" in caplog.messages[-1]
        server.refusals.clear()
        made = api.create(INFRA_ENV, INFRA_ENV.new(Key("n", "env")))
        conditions = [said("ImageCreated", "True", "InfraEnvAvailable")]
        api.update_status(INFRA_ENV, made | {"status": {"conditions": conditions, "isoDownloadURL": "https://iso"}})
        assert waiting.run(api, "InfraEnvs/env", "n", 5) == 0


@pytest.mark.parametrize("resource", ["infraenv", "infraenv/", "pod/x", "/x"])
def test_what_is_no_resource_is_refused(resource):
    with pytest.raises(ConfigError, match="must be KIND/NAME"):
        waiting.run(None, resource, "n", 1)
