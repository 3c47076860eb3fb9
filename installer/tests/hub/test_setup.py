"""Removal of a hub's definitions: what is left behind is said."""

import pytest

from installer.hub import setup
from installer.hub.kube.kinds import CLUSTER_IMAGE_SET, INFRA_ENV, Key
from installer.testing.hub.apiserver import ApiServer, Store


def test_an_operator_in_the_cluster_runs_where_the_hosts_reach_it_and_goes_first(monkeypatch):
    server = ApiServer(Store((*ApiServer.KINDS, *setup.KINDS.values(), setup.NODE, setup.POD)))
    wanted, key = setup.InCluster("r.example/node0@sha256:1", "[2001:DB8::2]:8090"), Key("node0-hub", "node0-hub")
    try:
        api = server.api()
        with pytest.raises(setup.SetupError, match=r"--listen \[2001:DB8::2\]:8090: no node has this address"):
            setup.install(api, wanted)
        assert api.get(setup.KINDS["Namespace"], Key("", "node0-hub")) is None  # nothing was made
        for number in (1, 2):
            node = setup.NODE.new(Key("", f"n{number}"))
            node["metadata"]["labels"] = {"kubernetes.io/hostname": f"host-{number}"}
            node["status"] = {"addresses": [{"type": "InternalIP", "address": f"2001:db8::{number}"}]}
            api.update_status(setup.NODE, api.create(setup.NODE, node) | {"status": node["status"]})
        setup.install(api, wanted)
        pod = api.get(setup.DEPLOYMENT, key)["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"kubernetes.io/hostname": "host-2"}
        [container] = pod["containers"]
        assert container["image"] == wanted.image
        assert container["args"][-3:] == ["[2001:DB8::2]:8090", "--webhook", "[2001:DB8::2]:9443"]
        api.patch(setup.SERVICE, key, {"spec": {"clusterIP": "172.30.0.9"}})
        setup.install(api, wanted)
        assert api.get(setup.SERVICE, key)["spec"]["clusterIP"] == "172.30.0.9"
        pod = setup.POD.new(key)
        pod["metadata"]["labels"] = {"app": "node0-hub"}
        api.create(setup.POD, pod)
        monkeypatch.setattr(setup, "_ENDED_SECONDS", 0.1)
        with pytest.raises(setup.SetupError, match=r"the operator still runs after 0 s, .*: node0-hub/node0-hub"):
            setup.uninstall(api, with_resources=False)
        assert api.get(setup.KINDS["ClusterRole"], Key("", "node0-hub"))  # it needs its rights to end
        api.delete(setup.POD, key)
        setup.uninstall(api, with_resources=False)
        assert not api.list(setup.DEPLOYMENT)[0]
        assert not api.list(setup.SERVICE)[0]
    finally:
        server.close()


def test_resources_that_the_operator_has_not_ended_are_named_as_left_in_its_service(caplog):
    server = ApiServer(Store((*ApiServer.KINDS, *setup.KINDS.values(), setup.POD)))
    try:
        api = server.api()
        setup.install(api)
        env = INFRA_ENV.new(Key("site", "env"))
        env["metadata"]["finalizers"] = ["operator"]
        api.create(INFRA_ENV, env)
        api.create(CLUSTER_IMAGE_SET, CLUSTER_IMAGE_SET.new(Key("", "release")))
        with pytest.raises(setup.SetupError, match=r"InfraEnv site/env \(delete them while the operator"):
            setup.uninstall(api, with_resources=False)
        assert api.get(INFRA_ENV, Key("site", "env"))
        setup.uninstall(api, with_resources=True)
        assert not api.list(INFRA_ENV)[0]
    finally:
        server.close()
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("not ended by the operator: InfraEnv site/env. Their clusters, infra-envs and hosts are")
