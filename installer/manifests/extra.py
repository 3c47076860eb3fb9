"""Manifests of openshift/, which are applied to the cluster besides its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from installer.common.formats import YamlError
from installer.common.formats.yamltext import go_dump, load_all
from installer.config.load import decoded_text
from installer.errors import ConfigError


def split_documents(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Each document as a file of its own: <base>-<n><ext>, n from 0 (reference §2.1). Raises ConfigError."""
    documents: dict[str, bytes] = {}
    for name, data in files.items():
        path = Path(name)
        try:
            for number, document in enumerate(load_all(decoded_text(data, name))):
                if not isinstance(document, dict) or not document.get("kind"):
                    raise ConfigError(f"{name}: document {number} is not a manifest: it has no kind", file=name)
                documents[f"{path.stem}-{number}{path.suffix}"] = go_dump(document).encode()
        except YamlError as error:
            raise ConfigError(f"failed to unmarshal {name}: {error}", file=name) from error
    return documents
