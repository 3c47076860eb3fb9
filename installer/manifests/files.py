"""Which files there are in cluster-manifests/ and mirror/, by their path below the asset directory (§2.1)."""

from __future__ import annotations

DIRECTORY = "cluster-manifests"
INSTALL = f"{DIRECTORY}/agent-cluster-install.yaml"
DEPLOYMENT = f"{DIRECTORY}/cluster-deployment.yaml"
IMAGE_SET = f"{DIRECTORY}/cluster-image-set.yaml"
INFRA_ENV = f"{DIRECTORY}/infraenv.yaml"
NMSTATE = f"{DIRECTORY}/nmstateconfig.yaml"
PULL_SECRET = f"{DIRECTORY}/pull-secret.yaml"
MANIFESTS = (INSTALL, DEPLOYMENT, IMAGE_SET, INFRA_ENV, NMSTATE, PULL_SECRET)

MIRROR_DIRECTORY = "mirror"
REGISTRIES = f"{MIRROR_DIRECTORY}/registries.conf"
CA_BUNDLE = f"{MIRROR_DIRECTORY}/ca-bundle.crt"
MIRROR = (REGISTRIES, CA_BUNDLE)
