"""Files of cluster-manifests/ and mirror/, by their path below the asset directory (§2.1)."""

from __future__ import annotations

DIRECTORY = "cluster-manifests"
INSTALL = f"{DIRECTORY}/agent-cluster-install.yaml"
DEPLOYMENT = f"{DIRECTORY}/cluster-deployment.yaml"
IMAGE_SET = f"{DIRECTORY}/cluster-image-set.yaml"
INFRA_ENV = f"{DIRECTORY}/infraenv.yaml"
NMSTATE = f"{DIRECTORY}/nmstateconfig.yaml"
PULL_SECRET = f"{DIRECTORY}/pull-secret.yaml"
MANIFESTS = (INSTALL, DEPLOYMENT, IMAGE_SET, INFRA_ENV, NMSTATE, PULL_SECRET)
# A cluster needs all of these.
REQUIRED = frozenset({INSTALL, DEPLOYMENT, INFRA_ENV, PULL_SECRET})
# The files that depend on an agent-config; the others follow from the install-config alone.
OF_AGENT_CONFIG = (INFRA_ENV, NMSTATE, INSTALL)

MIRROR_DIRECTORY = "mirror"
REGISTRIES = f"{MIRROR_DIRECTORY}/registries.conf"
CA_BUNDLE = f"{MIRROR_DIRECTORY}/ca-bundle.crt"
MIRROR = (REGISTRIES, CA_BUNDLE)

# What upstream calls the assets in its messages, in the order in which it loads them.
ASSETS = {
    PULL_SECRET: "Agent PullSecret",
    INFRA_ENV: "InfraEnv Config",
    NMSTATE: "NMState Config",
    INSTALL: "AgentClusterInstall Config",
    DEPLOYMENT: "ClusterDeployment Config",
    IMAGE_SET: "ClusterImageSet Config",
    REGISTRIES: "Mirror Registries Config",
    CA_BUNDLE: "Mirror Registries Certificate File",
}
