"""Last stage of `create`: credentials and state written, and inputs removed, which the state holds then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from installer.config.state import FILE as STATE_FILE
from installer.config.state import OWN, State
from installer.create.outputs import Outputs
from installer.create.stages.check import Inputs
from installer.create.stages.places import places
from installer.create.stages.secrets import Secrets, store


def write(
    outputs: Outputs, state: State, inputs: Inputs, secrets: Secrets | None, *, images: Mapping[str, str] | None = None
) -> None:
    """Put everything in place: auth/, rendezvousIP (both with secrets only), the state; then remove the inputs.

    `images`: what hosts pull from the start, names by digest by tag.
    """
    for asset, files in inputs.consumed.items():
        state.put_files(asset, files)
        outputs.remove(*files)
    outputs.remove(*inputs.discarded)
    if secrets is not None:
        store(state, secrets)
        state.put(OWN, own_state(inputs, secrets, images or {}))
        outputs.put("auth/kubeconfig", secrets.kubeconfig.encode())
        outputs.put("auth/kubeadmin-password", secrets.password.encode())
        outputs.put("rendezvousIP", inputs.rendezvous_ip.encode(), 0o644)
    save(outputs, state)


def save(outputs: Outputs, state: State) -> None:
    """Put everything in place, and the state with it."""
    outputs.put(STATE_FILE, state.text().encode())
    outputs.commit()


def own_state(inputs: Inputs, secrets: Secrets, images: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of the state that wait-for reads; with `registry` it checks whether these images can be
    pulled."""
    install = inputs.install
    return {
        "rendezvousIP": inputs.rendezvous_ip,
        "serviceCACert": secrets.service_ca.certificate,
        "watcherToken": secrets.tokens.watcher,
        "clusterName": install.metadata.name,
        "baseDomain": install.base_domain.rstrip("."),
        "platform": install.platform.name,
        "expectedHosts": {
            "names": [host.hostname for host in inputs.hosts],
            "macAddresses": [[nic.mac_address for nic in host.interfaces] for host in inputs.hosts],
            "controlPlane": install.masters,
            "arbiters": install.arbiters,
            "workers": install.workers,
        },
        "places": places(inputs),
        "images": dict(images),
        "registry": {
            "pullSecret": install.pull_secret,
            "trustBundle": install.additional_trust_bundle,
            "sources": [
                {"source": entry.source, "mirrors": list(entry.mirrors), "policy": entry.policy}
                for entry in install.sources
            ],
        },
    }
