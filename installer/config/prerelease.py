"""agent-config.yaml as it was before the installer's first release: no apiVersion, and all fields under `spec`."""

from __future__ import annotations

import logging

import yaml

from installer.common.formats import YamlError
from installer.common.formats.yamltext import is_null

log = logging.getLogger(__name__)

#: apiVersion of the first release, which had moved the fields out of `spec`.
_API_VERSION = "v1alpha1"
_STR = "tag:yaml.org,2002:str"


def current_form(root: yaml.Node) -> yaml.Node:
    """Return a document in today's form, with a warning if it was not. Raises YamlError for a field in both places."""
    if not isinstance(root, yaml.MappingNode):
        return root
    fields = {key.value: (key, value) for key, value in root.value}
    if "apiVersion" in fields or "spec" not in fields:
        return root
    spec_key, spec = fields.pop("spec")
    if not isinstance(spec, yaml.MappingNode) and not is_null(spec):
        return root  # no form of this file has such a spec: it is reported as an unknown field
    log.warning(
        "agent-config.yaml has no apiVersion, and its fields are under spec: that form is deprecated; write "
        "apiVersion: v1beta1 and move the fields of spec to the top"
    )
    moved = spec.value if isinstance(spec, yaml.MappingNode) else []
    for key, _ in moved:
        if key.value in fields:
            raise YamlError(key.start_mark.line + 1, f'key "{key.value}" is both in spec and outside')
    version = (
        yaml.ScalarNode(_STR, "apiVersion", spec_key.start_mark, spec_key.end_mark),
        yaml.ScalarNode(_STR, _API_VERSION, spec_key.start_mark, spec_key.end_mark),
    )
    return yaml.MappingNode(root.tag, [version, *fields.values(), *moved], root.start_mark, root.end_mark)
