"""Removal of a hub's definitions: what is left behind is said."""

import pytest

from installer.hub import setup
from installer.hub.kube.kinds import CLUSTER_IMAGE_SET, INFRA_ENV, Key
from installer.testing.hub.apiserver import ApiServer, Store


def test_resources_that_the_operator_has_not_ended_are_named_as_left_in_its_service(caplog):
    server = ApiServer(Store((*ApiServer.KINDS, *setup.KINDS.values())))
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
