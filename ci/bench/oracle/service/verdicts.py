"""What both services think of a scenario, side by side: statuses, validations, disks, and what follows from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ci.bench.oracle.service.drive import Played, host_id

# Results that do not hold an installation up.
_FINE = {"success", "disabled", "success-suppress-output"}
_HOST = ("requested_hostname", "role", "bootstrap", "installation_disk_id", "stage")
_CLUSTER = ("machine_networks", "api_vips", "ingress_vips", "network_type", "user_managed_networking", "platform")


@dataclass
class Compared:
    """One scenario; ``pairs``: (what, theirs, ours) of everything that can agree."""

    name: str
    pairs: list[tuple[str, Any, Any]] = field(default_factory=list)
    #: Validations with equal results: whose they are, and whether both say it in the same words.
    words: list[tuple[str, bool]] = field(default_factory=list)

    def differences(self, *kinds: str) -> list[tuple[str, Any, Any]]:
        """The differences of these kinds (the words before the first blank)."""
        return [pair for pair in self.pairs if pair[1] != pair[2] and (not kinds or pair[0].split(" ")[0] in kinds)]


def compare(theirs: tuple[Played, dict[str, Any]], ours: tuple[Played, dict[str, Any]]) -> Compared:
    """Both views of one scenario."""
    (left, their_view), (right, our_view) = theirs, ours
    comparison = Compared(left.world.renamed())
    add = comparison.pairs.append
    for (what, their_code), (_, our_code) in zip(left.codes, right.codes, strict=False):
        add((f"code {what}", their_code, our_code))
    add(("cluster-status", their_view.get("status"), our_view.get("status")))
    for name, their_result, our_result in _validations(their_view, our_view):
        add((f"cluster-validation {name}", their_result, our_result))
    comparison.words += _words("cluster", their_view, our_view)
    for name in _CLUSTER:
        add((f"cluster-field {name}", _plain(their_view.get(name)), _plain(our_view.get(name))))
    their_hosts, our_hosts = _hosts(their_view), _hosts(our_view)
    # Only how many have each role: among equal hosts the real service decides by the order of its database's rows.
    add(("roles", _roles(their_hosts), _roles(our_hosts)))
    for host in left.world.hosts:
        identity = host_id(left.world, host.number)
        one, other = their_hosts.get(identity, {}), our_hosts.get(identity, {})
        add((f"host-status {host.number}", one.get("status"), other.get("status")))
        for name, their_result, our_result in _validations(one, other):
            add((f"host-validation {name} of {host.number}", their_result, our_result))
        comparison.words += _words("host", one, other)
        for name in _HOST:
            add((f"host-field {name} of {host.number}", one.get(name) or None, other.get(name) or None))
        for name, their_disk, our_disk in _disks(one, other):
            add((f"disk {name} of {host.number}", their_disk, our_disk))
    return comparison


def _hosts(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(host["id"]): host for host in view.get("hosts") or []}


def _roles(hosts: dict[str, dict[str, Any]]) -> list[str]:
    return sorted(str(host.get("suggested_role") or "") for host in hosts.values())


def _plain(value: Any) -> Any:
    """Without what is empty, and without the ids of the cluster."""
    if isinstance(value, dict):
        inner = {key: _plain(item) for key, item in value.items() if key not in ("cluster_id", "verification")}
        return {key: item for key, item in inner.items() if item not in (None, "", [], {}, False)} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    return value or None


def _lines(info: Any) -> dict[str, dict[str, Any]]:
    groups = json.loads(info) if isinstance(info, str) and info else info or {}
    return {str(line["id"]): line for group in groups.values() for line in group or []}


def results(info: Any) -> dict[str, str]:
    """Results by validation id."""
    return {name: str(line["status"]) for name, line in _lines(info).items()}


def _words(kind: str, one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, bool]]:
    left, right = _lines(one.get("validations_info")), _lines(other.get("validations_info"))
    both = [(left[name], right[name]) for name in left.keys() & right.keys()]
    return [
        (kind, mine.get("message") == theirs.get("message"))
        for theirs, mine in both
        if mine["status"] == theirs["status"]
    ]


def _validations(one: dict[str, Any], other: dict[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    left, right = results(one.get("validations_info")), results(other.get("validations_info"))
    for name in sorted({*left, *right}):
        yield name, _simple(left.get(name)), _simple(right.get(name))


def _simple(result: str | None) -> str:
    # A missing result is a suppressed success.
    return "fine" if result is None or result in _FINE else result


def _disks(one: dict[str, Any], other: dict[str, Any]) -> Iterable[tuple[str, Any, Any]]:
    left, right = _eligibility(one), _eligibility(other)
    for name in sorted({*left, *right}):
        yield name, left.get(name), right.get(name)


def _eligibility(host: dict[str, Any]) -> dict[str, bool]:
    inventory = json.loads(host.get("inventory") or "{}")
    return {
        f"{number}": bool((item.get("installation_eligibility") or {}).get("eligible"))
        for number, item in enumerate(inventory.get("disks") or [])
    }


KINDS = (
    *("code", "cluster-status", "host-status", "cluster-validation", "host-validation"),
    *("cluster-field", "host-field", "roles", "disk"),
)


def agreement(compared: list[Compared]) -> list[tuple[str, str]]:
    """Rows of a table: of each kind of thing, how many agree; then scenarios in which all statuses do."""

    def share(part: int, whole: int) -> str:
        return f"{part:6} of {whole:6} ({100 * part / whole:5.1f} %)" if whole else "none to compare"

    rows = []
    for kind in KINDS:
        pairs = [pair for one in compared for pair in one.pairs if pair[0].split(" ")[0] == kind]
        rows.append((kind, share(sum(1 for pair in pairs if pair[1] == pair[2]), len(pairs))))
    for kind in ("cluster", "host"):
        same = [equal for one in compared for of, equal in one.words if of == kind]
        rows.append((f"{kind}-validation, word for word", share(sum(same), len(same))))
    whole = [one for one in compared if not one.differences("host-status", "cluster-status")]
    return [*rows, ("scenarios with all statuses equal", share(len(whole), len(compared)))]


def grouped(compared: list[Compared]) -> list[tuple[str, int, str]]:
    """(difference, how often, an example), the most frequent first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for one in compared:
        for what, theirs, ours in one.differences():
            name = what.split(" of ")[0] if what.split(" ")[0] != "disk" else "disk"
            if name.startswith("host-status"):
                name = "host-status"
            key = f"{name}: {theirs} there, {ours} here"
            counts[key] += 1
            examples.setdefault(key, one.name)
    return [(key, count, examples[key]) for key, count in counts.most_common()]
