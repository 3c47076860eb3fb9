"""NMState documents to NetworkManager keyfiles, without nmstatectl (docs/nmstate.md says what is supported)."""

from installer.network.errors import InvalidNetworkConfig, Problem, UnreadableDocument
from installer.network.generate import keyfiles
from installer.network.host import HOST, host_network_files

__all__ = ["HOST", "InvalidNetworkConfig", "Problem", "UnreadableDocument", "host_network_files", "keyfiles"]
