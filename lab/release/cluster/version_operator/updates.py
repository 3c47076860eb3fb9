"""The update that ClusterVersion asks for, and the rules by which a release is let in (reference/upgrades.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.release.cluster.errors import InvalidUpdate
from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Condition, find

_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
Key = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


@dataclass(frozen=True)
class Update:
    """A release to be at: its image, its version where that is known, and whether rules may be broken for it."""

    version: str
    image: str
    force: bool = False

    @property
    def digest(self) -> str:
        """``sha256:...`` of the image; empty when it is not named by digest."""
        return self.image.rpartition("@")[2] if "@" in self.image else ""

    @property
    def shown(self) -> str:
        """Version and image, as messages quote them."""
        return f'version="{self.version}" image="{self.image}"'


def precedence(version: str) -> Key:
    """Return a key that orders semantic versions (semver.org §11). Raises ValueError for what is none."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no semantic version")
    major, minor, patch, before = match.groups()
    words = before.split(".") if before else []
    keys = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words)
    return int(major), int(minor), int(patch), not words, keys


def _invalid(field: str, rule: str, value: str | None = None) -> InvalidUpdate:
    kind = "Required value" if value is None else f'Invalid value: "{value}"'
    return InvalidUpdate(f"The cluster version is invalid: spec.desiredUpdate.{field}: {kind}: {rule}")


def wanted(spec: Mapping[str, Any], status: Mapping[str, Any], current: Update) -> Update:
    """Return the update that the spec asks for; ``current`` when it asks for none, or for that. Raises InvalidUpdate.

    A version alone is looked for among the available updates, then among those that the cluster has been at.
    """
    asked = spec.get("desiredUpdate")
    if not asked:
        return current
    version, image, force = str(asked.get("version") or ""), str(asked.get("image") or ""), bool(asked.get("force"))
    if not version and not image:
        raise _invalid("version", "must specify version or image")
    if version and not _SEMVER.fullmatch(version):
        raise _invalid("version", "must be a semantic version (1.2.3[-...])", version)
    if not image:
        if version == current.version:
            return current
        known = {u["image"] for u in status.get("availableUpdates") or [] if u["version"] == version}
        if not known:
            known = {e["image"] for e in status.get("history") or [] if e.get("version") == version}
        if not known:
            rule = "when image is empty the update must be a previous version or an available update"
            raise _invalid("version", rule, version)
        if len(known) > 1:
            rule = "there are multiple possible payloads for this version, specify the exact image"
            raise _invalid("version", rule, version)
        [image] = known
    if image != current.image:
        return Update(version, image, force)
    if version and version != current.version:
        raise _invalid("version", f"spec.desiredUpdate.image is that of {current.version}", version)
    return current


def upgradeable(spec: Mapping[str, Any], operators: Sequence[Object]) -> tuple[str, str] | None:
    """Return reason and message of what stands in the way of a new minor version; None when nothing does."""
    risks: list[tuple[str, str]] = []
    barred: list[tuple[str, Condition]] = []
    for operator in operators:
        condition = find((operator.get("status") or {}).get("conditions") or [], "Upgradeable")
        if condition is not None and condition["status"] == "False":
            barred.append((operator["metadata"]["name"], condition))
    lines = [f"Cluster operator {name} cannot be upgraded between minor versions" for name, _ in barred]
    if len(barred) == 1:
        condition = barred[0][1]
        risks.append((condition.get("reason", ""), f"{lines[0]}: {condition.get('message', '')}"))
    elif barred:
        text = "\n".join(
            f"* {line}: {condition.get('reason', '')}: {condition.get('message', '')}"
            for line, (_, condition) in zip(lines, barred, strict=True)
        )
        head = "Multiple cluster operators cannot be upgraded between minor versions:"
        risks.append(("ClusterOperatorsNotUpgradeable", f"{head}\n{text}"))
    if any(entry.get("unmanaged") for entry in spec.get("overrides") or []):
        rule = "Disabling ownership via cluster version overrides prevents upgrades."
        risks.append(("ClusterVersionOverridesSet", f"{rule} Please remove overrides before continuing."))
    if len(risks) > 1:
        reasons = ",".join(reason for reason, _ in risks)
        head = "Cluster cannot be upgraded between minor versions for multiple reasons"
        return "MultipleReasons", f"{head}: {reasons}"
    return risks[0] if risks else None


def _going_back(status: Mapping[str, Any], current: Update, target: Update) -> str:
    """Return the reason why a lower version may not be gone back to; nothing when it may, or is none."""
    if precedence(target.version) >= precedence(current.version):
        return ""
    less = f"{target.version} is less than the current target {current.version}"
    earlier = [e for e in status.get("history") or [] if e["image"] != current.image and e.get("version")]
    if not earlier:
        return f"{less}, and the cluster has no previous Semantic Version"
    before = earlier[0]
    if before["version"] != target.version:
        only = "and the only supported rollback is to the cluster's previous version"
        return f"{less}, {only} {before['version']} ({before['image']})"
    if precedence(target.version)[:2] != precedence(current.version)[:2]:
        rule = "but rollbacks that change major or minor versions are not recommended"
        return f"{less} and matches the cluster's previous version, {rule}"
    return ""


def preconditions(
    spec: Mapping[str, Any], status: Mapping[str, Any], operators: Sequence[Object], *, current: Update, target: Update
) -> str:
    """Return the preconditions that a loaded release fails, as ReleaseAccepted tells them; nothing when it may."""
    failed = []
    risk = upgradeable(spec, operators)
    if risk is not None and precedence(target.version)[:2] > precedence(current.version)[:2]:
        failed.append(f'Precondition "ClusterVersionUpgradeable" failed because of "{risk[0]}": {risk[1]}')
    if back := _going_back(status, current, target):
        failed.append(f'Precondition "ClusterVersionRollback" failed because of "LowDesiredVersion": {back}')
    return "".join(failed) if len(failed) < 2 else "\n* ".join(["Multiple precondition checks failed:", *failed])
