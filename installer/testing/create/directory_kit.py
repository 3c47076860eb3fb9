"""The node0 command, and what it leaves in an asset directory."""

import json
import stat
import sys
from pathlib import Path

from installer.testing.create.image_kit import content

NODE0 = [sys.executable, "-m", "installer"]
LOG = ".openshift_install.log"


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the directory's lock, by the kernel's list: trying it would take it."""
    inode = f":{folder.stat().st_ino} "
    return any("FLOCK" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def of_one_run(folder: Path) -> bool:
    """ISO, state and auth/ belong together."""
    state = json.loads((folder / ".openshift_install_state.json").read_text())
    _config, files = content(folder / "agent.x86_64.iso")
    text = "".join(files.values())
    own = state["*node0.Credentials"]
    return (
        state["*gencrypto.AuthConfig"]["AgentAuthToken"] in text
        and own["serviceCA"]["certificate"] in text
        and own["kubeconfig"] == (folder / "auth/kubeconfig").read_text()
        and own["password"] == (folder / "auth/kubeadmin-password").read_text()
    )


def snapshot(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Everything in a folder but its log: kinds, contents and modes."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None,
        )
        for path in folder.rglob("*")
        if path.name != LOG
    }
