"""The assets of `agent create ...` and what each is made from, as a DOT graph (reference §2.2)."""

from __future__ import annotations

TARGETS: dict[str, tuple[str, ...]] = {
    "Target Agent Config Template": ("agentconfig.AgentConfig",),
    "Target Cluster Manifests": ("manifests.AgentManifests", "mirror.RegistriesConf", "mirror.CaBundle"),
    "Target Agent ISO Image": ("image.AgentImage", "kubeconfig.AgentAdminClient", "password.KubeadminPassword"),
    "Target Agent PXE Files": ("image.AgentPXEFiles", "kubeconfig.AgentAdminClient", "password.KubeadminPassword"),
    "Target Agent Config Image": (
        "configimage.ConfigImage",
        "kubeconfig.AgentAdminClient",
        "password.KubeadminPassword",
    ),
    "Target Agent unconfigured ignition": ("image.UnconfiguredIgnition",),
    "Target Agent create certificates": ("tls.Signers", "image.AgentPassword"),
}
ASSETS: dict[str, tuple[str, ...]] = {
    "image.AgentImage": ("image.Ignition", "image.BaseIso", "image.Kargs"),
    "image.AgentPXEFiles": ("image.Ignition", "image.BaseIso", "image.Kargs"),
    "configimage.ConfigImage": ("image.Ignition",),
    "image.UnconfiguredIgnition": ("manifests.AgentManifests", "agentconfig.AgentConfig", "releaseimage.Image"),
    "image.Ignition": (
        "manifests.AgentManifests",
        "manifests.ExtraManifests",
        "mirror.RegistriesConf",
        "mirror.CaBundle",
        "agentconfig.AgentHosts",
        "tls.Signers",
        "tls.ServiceCA",
        "gencrypto.AuthConfig",
        "password.KubeadminPassword",
        "releaseimage.Image",
    ),
    "image.BaseIso": ("releaseimage.Image", "manifests.AgentManifests", "mirror.RegistriesConf"),
    "image.Kargs": ("manifests.AgentManifests",),
    "manifests.AgentManifests": ("agent.OptionalInstallConfig", "agentconfig.AgentHosts", "releaseimage.Image"),
    "mirror.RegistriesConf": ("agent.OptionalInstallConfig",),
    "mirror.CaBundle": ("agent.OptionalInstallConfig",),
    "agentconfig.AgentHosts": ("agent.OptionalInstallConfig", "agentconfig.AgentConfig"),
    "kubeconfig.AgentAdminClient": ("tls.Signers", "manifests.AgentManifests"),
    "image.AgentPassword": ("password.KubeadminPassword",),
}


def dot() -> str:
    """Return the graph: a box for each command, a cluster for each package of assets."""
    lines = ["digraph G {", "\trankdir=LR;"]
    lines += [f'\t"{target}" [ shape=box, style=filled ];' for target in TARGETS]
    edges = {**TARGETS, **ASSETS}
    nodes = sorted({node for parents in edges.values() for node in parents} | set(ASSETS))
    for room in sorted({node.partition(".")[0] for node in nodes}):
        lines.append(f"\tsubgraph cluster_{room} {{")
        lines.append(f"\t\tlabel={room};")
        lines += [f'\t\t"{node}";' for node in nodes if node.startswith(f"{room}.")]
        lines.append("\t}")
    lines += [f'\t"{name}"->"{parent}";' for name, parents in edges.items() for parent in parents]
    return "\n".join([*lines, "}", ""])
