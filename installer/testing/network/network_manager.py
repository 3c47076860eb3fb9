"""The real NetworkManager as a judge of keyfiles: offline through nmcli, and as a daemon in namespaces of its own."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

DAEMON = Path(__file__).with_name("network_manager.sh")


def why_not(daemon: bool = False) -> str:
    """Return the reason why the real program cannot be asked here; empty when it can."""
    needed = ["nmcli", *(["NetworkManager", "dbus-daemon", "unshare", "ip"] if daemon else [])]
    missing = [
        name for name in needed if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None
    ]
    if missing:
        return f"{', '.join(missing)} not installed: packages network-manager, dbus-daemon, iproute2 (ci/packages)"
    if daemon and os.geteuid() != 0:
        return "a NetworkManager of its own needs root, for namespaces"
    return ""


def canonical(text: str) -> tuple[str, str]:
    """Return (what NetworkManager writes for the profile that it read from this keyfile, its complaint)."""
    done = subprocess.run(
        ["nmcli", "--offline", "connection", "modify", "connection.autoconnect-priority", "1"],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout, done.stderr if done.stderr or done.returncode == 0 else f"exit code {done.returncode}"


def ask_daemon(profiles: Mapping[str, str], questions: Sequence[str], scratch: Path) -> tuple[list[str], str]:
    """Load keyfiles into a private NetworkManager; returns its answers (nmcli's output) and its log."""
    for name, text in profiles.items():
        path = scratch / "profiles" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    (scratch / "questions").write_text("".join(f"{question}\n" for question in questions))
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--", "bash", str(DAEMON), str(scratch)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    log = (scratch / "log").read_text() if (scratch / "log").exists() else ""
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{log[-2000:]}"
    return [(scratch / f"answer{number}").read_text() for number in range(len(questions))], log
