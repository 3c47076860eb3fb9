"""Lab releases that differ from the lab release on purpose: broken (docs/informer.md), with a foreign program, or newer
(docs/upgrades.md).

python -m lab.release build --variant operator-unavailable       # prints its pullspec
node0-ci run sno-ipv4-static-uefi --release PULLSPEC
python -m lab.release build --variant next                       # what a cluster can be upgraded to
python -m lab.release build --variant real-agent --agent DIR     # an agent that was built elsewhere, in place of ours
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.release.components import Component
from lab.release.image.debian import Packages
from lab.release.stage.errors import ReleaseError

#: What `slower` adds: about 30 % of what one node takes as a container.
SLOWER_SECONDS = 40
SLOW_BOOTSTRAP_SECONDS = 180

Change = Callable[[Component], Component]
#: A manifest's text, made of the one that the lab release has by that name; of nothing where it has none.
Edit = Callable[[str], str]


@dataclass(frozen=True)
class Variant:
    """A release that differs from the lab release.

    `text` says how, in a line; `component` is the tag of the image that is to blame. `change` makes that image's row
    another one; `absent` leaves the image as it is, but names it in the release by a digest that no registry has.
    A release to upgrade to has a `version` of its own (that before the hash), images that have a file more (`marked`,
    by tag), other manifests, and a machine OS of that version, whose `os_programs` (scripts by path) are others.
    """

    text: str
    component: str
    change: Change = field(default=lambda component: component)
    absent: bool = False
    packages: Mapping[str, Packages] = field(default_factory=dict)
    version: str = ""
    marked: tuple[str, ...] = ()
    manifests: Mapping[str, Edit] = field(default_factory=dict)
    os_programs: Mapping[str, str] = field(default_factory=dict)


def _before(path: str, script: str) -> Change:
    """Run a shell script each time before the program of that path, which keeps its name."""
    name = path.rpartition("/")[2]
    real = f"usr/libexec/variant/{name}"

    def change(component: Component) -> Component:
        commands = {real if command == path else command: module for command, module in component.commands.items()}
        text = f'#!/bin/bash\n{script}\nexec /{real} "$@"\n'
        return replace(component, commands=commands, programs={**component.programs, path: text})

    return change


def _never_serves(component: Component) -> Component:
    """Keep the console's program from ever listening, though it stays."""
    text = '#!/bin/bash\necho "console: variant operator-unavailable: never listens" >&2\nexec sleep infinity\n'
    return replace(component, commands={}, programs={"usr/bin/console": text})


# Each start is another throw: who starts it keeps no count.
_ONE_OF_FIVE = """number=$(od -An -N2 -tu2 /dev/urandom)
if [ $((number % 5)) = 0 ]; then
    echo "assisted-service: panic: variant service-crashes: one start of five" >&2
    exit 134
fi"""

VARIANTS: Mapping[str, Variant] = {
    "operator-unavailable": Variant(
        "the console never serves: its operator stays unavailable", "console", _never_serves
    ),
    "service-crashes": Variant(
        "the rendezvous service crashes at one start of five",
        "agent-installer-api-server",
        _before("usr/bin/assisted-service", _ONE_OF_FIVE),
    ),
    "slow-bootstrap": Variant(
        f"the orchestrator begins {SLOW_BOOTSTRAP_SECONDS} s late",
        "agent-installer-orchestrator",
        _before("usr/bin/assisted-installer", f"sleep {SLOW_BOOTSTRAP_SECONDS}"),
    ),
    "agent-absent": Variant(
        "the agent's image has a digest that no registry knows", "agent-installer-node-agent", absent=True
    ),
    "slower": Variant(
        f"every installation takes {SLOWER_SECONDS} s more: about 30 % for one node as a container",
        "agent-installer-orchestrator",
        _before("usr/bin/assisted-installer", f"sleep {SLOWER_SECONDS}"),
    ),
}
NONE = Variant("as it is", "")

_NOTES = """apiVersion: v1
kind: ConfigMap
metadata:
  name: release-notes
  namespace: openshift-config-managed
  annotations:
    include.release.openshift.io/self-managed-high-availability: 'true'
data:
  version: 0.0.1-snapshot
"""


def _renamed_binding(text: str) -> str:
    """Give the console's binding another name, and have the one of before removed."""
    head, separator, binding = text.rpartition("---\n")
    old = "  name: console\n  annotations:\n"
    if old not in binding:
        raise ReleaseError("the console's last manifest of roles is no binding called console any more")
    gone = binding.replace(old, f"{old}    release.openshift.io/delete: 'true'\n", 1)
    return f"{head}{separator}{gone}{separator}{binding.replace(old, old.replace('console', 'console-viewer'), 1)}"


def _longer_grace(text: str) -> str:
    """Give the console longer to end."""
    old = "terminationGracePeriodSeconds: 5\n"
    if old not in text:
        raise ReleaseError("the console's manifest does not say any more how long it may take to end")
    return text.replace(old, "terminationGracePeriodSeconds: 10\n")


def _ends_at_once(component: Component) -> Component:
    """Let the console end as soon as it starts."""
    text = '#!/bin/bash\necho "console: variant next-broken: ends at once" >&2\nexit 1\n'
    return replace(component, commands={}, programs={"usr/bin/console": text})


#: All that runs in an installed cluster and is made of the payload.
_RUNNING = (
    "agent-installer-csr-approver",
    "console",
    "etcd",
    "haproxy-router",
    "hyperkube",
    "kube-proxy",
    "machine-config-operator",
    "network-check-target",
    "node-network",
    "unbound",
)
_NEXT_MANIFESTS: Mapping[str, Edit] = {
    "0000_50_console_02_roles.yaml": _renamed_binding,
    "0000_50_console_03_deployment.yaml": _longer_grace,
    "0000_50_console_04_release-notes.yaml": lambda _: _NOTES,
}
#: Releases to upgrade the lab release to.
NEXT: Mapping[str, Variant] = {
    "next": Variant("the next patch version", "", version="4.18.1", marked=_RUNNING, manifests=_NEXT_MANIFESTS),
    "next-minor": Variant("the next minor version", "", version="4.19.0", marked=_RUNNING, manifests=_NEXT_MANIFESTS),
    "next-broken": Variant(
        "the next but one patch version, whose console ends as soon as it starts",
        "console",
        _ends_at_once,
        version="4.18.2",
        marked=_RUNNING,
        manifests=_NEXT_MANIFESTS,
    ),
    "next-broken-os": Variant(
        "another patch version, with whose machine OS no kubelet comes up",
        "",
        version="4.18.3",
        marked=_RUNNING,
        manifests=_NEXT_MANIFESTS,
        os_programs={
            "usr/bin/kubelet": '#!/bin/bash\necho "kubelet: variant next-broken-os: ends at once" >&2\nexit 1\n'
        },
    ),
}

REAL_AGENT = "real-agent"
# What OpenShift's agent calls besides programs of the base.
_AGENTS_TOOLS = Packages(("file", "fio", "iputils-arping", "nmap"))
# Directories that its containers mount from the host, where CoreOS has them and the lab's machine OS may not.
_AGENTS_HOST = """#!/bin/sh
nsenter --target 1 --mount -- sh -c 'mkdir -p /run/media /run/udev /etc/pki /opt /dev/disk
[ -e /etc/mtab ] || ln -s ../proc/self/mounts /etc/mtab'
exec /usr/libexec/real/agent "$@"
"""
# Emptying a disk's cache takes the host's own rights, which a container machine has not. fio says so on standard
# output, where its JSON is.
_AGENTS_FIO = """#!/bin/sh
exec /usr/bin/fio --invalidate=0 "$@"
"""
# The names by which the one program knows what it is to be.
_AGENTS_NAMES = ("disk_speed_check", "free_addresses", "inventory", "logs_sender", "next_step_runner")


def real_agent(directory: Path) -> Variant:
    """OpenShift's own agent in place of ours. Raises ReleaseError unless ``directory`` has its program, ``agent``."""
    program = directory / "agent"
    if not os.access(program, os.X_OK) or not program.is_file():
        raise ReleaseError(f"--agent {directory}: must hold OpenShift's agent, built as the program `agent`")

    def change(component: Component) -> Component:
        return replace(
            component,
            code=(),
            commands={},
            packages=("real-agent",),
            programs={"usr/bin/agent": _AGENTS_HOST, "usr/local/bin/fio": _AGENTS_FIO},
            links={f"usr/bin/{name}": "/usr/libexec/real/agent" for name in _AGENTS_NAMES},
            built={"usr/libexec/real/agent": program.resolve()},
        )

    text = "OpenShift's own agent, from --agent DIR, in place of ours"
    return Variant(text, "agent-installer-node-agent", change, packages={"real-agent": _AGENTS_TOOLS})


def chosen(name: str | None, agent: Path | None) -> Variant:
    """Return the variant of that name. Raises ReleaseError when what it needs was not given."""
    if name != REAL_AGENT:
        return {**VARIANTS, **NEXT}[name] if name else NONE
    if agent is None:
        raise ReleaseError("--variant real-agent needs --agent DIR, the folder of OpenShift's built agent")
    return real_agent(agent)


def changed(component: Component, variant: Variant) -> Component:
    """Return the row of an image in this variant."""
    if component.tag in variant.marked:
        component = replace(component, files={**component.files, "usr/share/node0/release": f"{variant.version}\n"})
    return variant.change(component) if component.tag == variant.component else component


def edited(manifests: Mapping[str, str], variant: Variant) -> dict[str, str]:
    """Return the manifests of the release, texts by their names, in this variant."""
    return {**manifests, **{name: edit(manifests.get(name, "")) for name, edit in variant.manifests.items()}}


def named(digests: Mapping[str, str], variant: Variant) -> dict[str, str]:
    """Return the digests by which the release names its images, by tag."""
    if not variant.absent:
        return dict(digests)
    kind, _, value = digests[variant.component].partition(":")
    return {**digests, variant.component: f"{kind}:{value[::-1]}"}
