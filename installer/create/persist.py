"""The end of every `create`: credentials and state written, inputs removed, which the state holds then."""

from __future__ import annotations

from installer.config.state import FILE as STATE_FILE
from installer.config.state import OWN, State
from installer.create import secrets
from installer.create.inputs import Gathered
from installer.create.live import own_state
from installer.create.outputs import Outputs
from installer.create.secrets import Secrets


def persist(outputs: Outputs, state: State, gathered: Gathered, made: Secrets | None) -> None:
    """Put everything in place: auth/, rendezvousIP (both with secrets only), the state; then the inputs go."""
    for asset, files in gathered.consumed.items():
        state.put_files(asset, files)
        outputs.remove(*files)
    outputs.remove(*gathered.discarded)
    if made is not None:
        secrets.store(state, made)
        state.put(OWN, own_state(gathered, made))
        outputs.put("auth/kubeconfig", made.kubeconfig.encode())
        outputs.put("auth/kubeadmin-password", made.password.encode())
        outputs.put("rendezvousIP", gathered.inputs.rendezvous_ip.encode(), 0o644)
    save(outputs, state)


def save(outputs: Outputs, state: State) -> None:
    """Put everything in place, and the state with it."""
    outputs.put(STATE_FILE, state.text().encode())
    outputs.commit()
