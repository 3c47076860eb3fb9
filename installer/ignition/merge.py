"""Ignition configs merged as Ignition itself merges them (Ignition spec 3, `ignition.config.merge`)."""

from __future__ import annotations

from typing import Any


def _same(first: Any, second: Any) -> bool:
    keys = ("path", "name")
    return any(key in first and first.get(key) == second.get(key) for key in keys)


def merge(base: Any, child: Any) -> Any:
    """Ignition's own merge: objects by key, lists of named things by ``path`` or ``name``, other lists appended."""
    if isinstance(base, dict) and isinstance(child, dict):
        return {
            key: merge(base.get(key), child[key]) if key in child else base[key] for key in [*base, *_new(base, child)]
        }
    if isinstance(base, list) and isinstance(child, list):
        result = list(base)
        for item in child:
            index = next(
                (
                    at
                    for at, old in enumerate(result)
                    if isinstance(old, dict) and isinstance(item, dict) and _same(old, item)
                ),
                None,
            )
            if index is None:
                if item not in result:
                    result.append(item)
            else:
                result[index] = merge(result[index], item)
        return result
    return base if child is None else child


def _new(base: dict[str, Any], child: dict[str, Any]) -> list[str]:
    return [key for key in child if key not in base]
