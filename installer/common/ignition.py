"""Ignition configs merged as Ignition merges a parent and a child (spec 3, config/merge/merge.go)."""

from __future__ import annotations

from typing import Any

# The field by which Ignition tells the entries of a list apart (a partition has a number or a label); other entries are
# the same if they are equal.
_KEYS = {
    "disks": "device",
    "filesystems": "device",
    "raid": "name",
    "luks": "name",
    "files": "path",
    "directories": "path",
    "links": "path",
    "units": "name",
    "dropins": "name",
    "users": "name",
    "groups": "name",
    "partitions": "number",
}
_APPENDED = ("options", "mountOptions", "append")


def merge(parent: Any, child: Any, name: str = "") -> Any:
    """Merge objects by field and lists, of field `name`, by the key of their entries. The arguments stay as they are.

    Two deviations: a file's source is replaced with its compression and hash, which Ignition would keep where the child
    has none; and a path that both have in different lists (a file and a link) stays in both, for validation to refuse.
    """
    if isinstance(parent, dict) and isinstance(child, dict):
        if child.get("source") is not None:
            return child
        merged = {
            field: merge(value, child[field], field) if field in child else value for field, value in parent.items()
        }
        return merged | {field: value for field, value in child.items() if field not in parent}
    if isinstance(parent, list) and isinstance(child, list):
        return _lists(parent, child, name)
    return parent if child is None else child


def _lists(parent: list[Any], child: list[Any], name: str) -> list[Any]:
    if name in _APPENDED:
        return [*parent, *child]
    # A user's groups are a list of names.
    has_keys = name in _KEYS and all(isinstance(entry, dict) for entry in [*parent, *child])
    if not has_keys:
        return [*parent, *(item for place, item in enumerate(child) if item not in [*parent, *child[:place]])]
    merged: dict[object, Any] = {}
    for entry in [*parent, *child]:
        key = entry.get(_KEYS[name]) or ("label", entry.get("label"))
        merged[key] = merge(merged.get(key, {}), entry)
    return list(merged.values())
