"""NMState documents to NetworkManager keyfiles, without nmstatectl (docs/nmstate.md says what is supported)."""

from installer.network.errors import InvalidNetworkConfig, Problem, UnreadableDocument
from installer.network.generate import keyfiles

__all__ = ["InvalidNetworkConfig", "Problem", "UnreadableDocument", "keyfiles"]
