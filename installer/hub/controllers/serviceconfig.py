"""AgentServiceConfig: the service that the operator runs, as far as it can be set: mirrors, the converged flow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from installer.errors import ConfigError
from installer.files import write_whole
from installer.hub.conditions import NO_SECOND, Condition, set_conditions
from installer.hub.controllers.inputs import Inputs
from installer.hub.kube.kinds import (
    AGENT_SERVICE_CONFIG,
    CONFIG_MAP,
    HYPERSHIFT_AGENT_SERVICE_CONFIG,
    Json,
    Key,
    Kind,
    annotations_of,
    is_deleted,
    key_of,
)
from installer.hub.kube.manager import Hub
from installer.hub.tables.clusterspec import SpecError
from installer.rendezvous.standalone import CA_BUNDLE, REGISTRIES, check_mirror

FINALIZER = "agentserviceconfig.agent-install.openshift.io/ai-deprovision"
NAME = "agent"
FILES = (REGISTRIES, CA_BUNDLE)
#: The annotation that names a ConfigMap with the service's environment, and the variable of it that counts here.
SETTINGS = "unsupported.agent-install.openshift.io/assisted-service-configmap"
CONVERGED = "ALLOW_CONVERGED_FLOW"
# Marks a folder of mirrors that was written here: another is its administrator's, and left alone.
OWN = ".agentserviceconfig"
# Between two looks at whether the service answers (s).
_LOOK = 60.0


class Refused(ConfigError):
    """The resource cannot be followed; the text is a sentence for its condition."""


class ServiceConfigController:
    """Writes the mirrors of a ConfigMap where the operator's own service reads them.

    ``mirror``: the service's folder of mirrors, None for a service that is another's. ``namespace``: the operator's,
    in which the ConfigMap lies.
    """

    kind = AGENT_SERVICE_CONFIG

    def __init__(self, hub: Hub, mirror: Path | None, namespace: str) -> None:
        self._hub = hub
        self._mirror = mirror
        self._namespace = namespace

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return ConfigMaps of the operator's namespace."""
        return {CONFIG_MAP: lambda obj: [Key("", NAME)] if key_of(obj).namespace == self._namespace else []}

    def reconcile(self, key: Key) -> float | None:
        """Bring the folder of mirrors up to date, and say in the status what was done."""
        config = self._hub.caches[AGENT_SERVICE_CONFIG].get(key)
        if config is None:
            return None
        if is_deleted(config):
            if key.name == NAME:
                self._withdraw()
            self._hub.remove_finalizer(AGENT_SERVICE_CONFIG, config, FINALIZER)
            return None
        try:
            if key.name != NAME:
                raise Refused(f"only the AgentServiceConfig named {NAME} is followed")
            config = self._hub.add_finalizer(AGENT_SERVICE_CONFIG, config, FINALIZER)
            text = self._follow(config.get("spec") or {}) + self._settings(config)
            done = Condition("ReconcileCompleted", "True", "ReconcileSucceeded", text)
        except ConfigError as error:
            done = Condition("ReconcileCompleted", "False", "ConfigFailure", str(error))
        problem = self._hub.feed.problem
        healthy = Condition("DeploymentsHealthy", "True", "DeploymentSucceeded", "the service answers")
        if problem:
            healthy = Condition("DeploymentsHealthy", "False", "DeploymentFailure", problem)
        old: Json = config.get("status") or {}
        conditions = set_conditions(old.get("conditions") or [], [done, healthy], self._hub.now(), second=NO_SECOND)
        self._hub.write_status(AGENT_SERVICE_CONFIG, config, {**old, "conditions": conditions})
        return _LOOK

    def _follow(self, spec: Json) -> str:
        unused = sorted(name for name, value in spec.items() if name != "mirrorRegistryRef" and value)
        rest = f"; without effect here: {', '.join(f'spec.{name}' for name in unused)}" if unused else ""
        reference = (spec.get("mirrorRegistryRef") or {}).get("name", "")
        if not reference:
            self._withdraw()
            return f"no mirrors are set{rest}"
        config_map = self._hub.api.get(CONFIG_MAP, Key(self._namespace, reference))
        if config_map is None:
            raise Refused(
                f"ConfigMap {self._namespace}/{reference}, which spec.mirrorRegistryRef names, does not exist"
            )
        data = config_map.get("data") or {}
        if REGISTRIES not in data:
            raise Refused(f"ConfigMap {self._namespace}/{reference} has no key {REGISTRIES}")
        self._write({name: str(data[name]) for name in FILES if name in data}, f"ConfigMap {reference}")
        version = config_map["metadata"]["resourceVersion"]
        return f"the mirrors of ConfigMap {self._namespace}/{reference} (version {version}) are set{rest}"

    def _settings(self, config: Json) -> str:
        """Return what is said of the ConfigMap that has the service's environment in the field."""
        name = annotations_of(config).get(SETTINGS)
        if not name:
            return ""
        key = Key(self._namespace, name)
        found = self._hub.api.get(CONFIG_MAP, key)
        if found is None:
            raise Refused(f"ConfigMap {key}, which the annotation {SETTINGS} names, does not exist")
        data = found.get("data") or {}
        if data.get(CONVERGED, "false") not in ("true", "false"):
            raise Refused(f"ConfigMap {key}: {CONVERGED} {data[CONVERGED][:80]!r} is neither true nor false")
        if database := ", ".join(sorted(name for name in data if name.startswith("DB_"))):
            text = "no other database is offered, the service's is a file in its folder"
            raise Refused(f"ConfigMap {key}: {database}: {text}")
        unused = ", ".join(sorted(data.keys() - {CONVERGED}))
        flow = "converged" if data.get(CONVERGED) == "true" else "classic"
        return f"; BareMetalHosts take the {flow} flow" + (f"; without effect here: {unused}" if unused else "")

    def _write(self, files: dict[str, str], source: str) -> None:
        mirror = self._mirror
        if mirror is None:
            raise Refused("spec.mirrorRegistryRef: the service is another's (--service), its mirrors are set there")
        if not (mirror / OWN).exists() and any((mirror / name).exists() for name in FILES):
            raise Refused(f"{mirror} holds mirrors that its administrator has set; they are left as they are")
        with tempfile.TemporaryDirectory() as place:
            for name, text in files.items():
                (Path(place) / name).write_text(text)
            try:
                check_mirror(Path(place))
            except ConfigError as error:
                raise Refused(f"{source}: {str(error).replace(f'{place}/', '')}") from None
        try:
            mirror.mkdir(exist_ok=True, mode=0o700)
            write_whole(mirror / OWN, b"", 0o644)
            for name in FILES:
                if name in files:
                    write_whole(mirror / name, files[name].encode(), 0o644)
                else:
                    (mirror / name).unlink(missing_ok=True)
        except OSError as error:
            raise Refused(f"{mirror} cannot be written: {error.strerror or error}") from None

    def _withdraw(self) -> None:
        """Remove the mirrors that were set here."""
        mirror = self._mirror
        if mirror is not None and (mirror / OWN).exists():
            for name in (*FILES, OWN):
                (mirror / name).unlink(missing_ok=True)


class Converged:
    """Knows whether BareMetalHosts take the converged flow: as the AgentServiceConfig's ConfigMap of settings says."""

    def __init__(self, hub: Hub, namespace: str) -> None:
        """`namespace`: the operator's."""
        self._hub, self._namespace, self._inputs = hub, namespace, Inputs(hub)

    def __call__(self) -> bool:
        """Return it as it is now."""
        config = self._hub.caches[AGENT_SERVICE_CONFIG].get(Key("", NAME))
        name = annotations_of(config).get(SETTINGS) if config else None
        if not name:
            return False
        try:
            return self._inputs.data(CONFIG_MAP, Key(self._namespace, name), SETTINGS).get(CONVERGED) == "true"
        except SpecError:
            return False


class HypershiftController:
    """Says of each HypershiftAgentServiceConfig that there is no service for hosted control planes."""

    kind = HYPERSHIFT_AGENT_SERVICE_CONFIG
    _TEXT = "HypershiftAgentServiceConfig is not offered: a hub installs from resources of its own API server alone"

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """Return nothing else."""
        return {}

    def reconcile(self, key: Key) -> float | None:
        """Write the condition."""
        config = self._hub.caches[self.kind].get(key)
        if config is not None and not is_deleted(config):
            old: Json = config.get("status") or {}
            refused = Condition("ReconcileCompleted", "False", "ConfigFailure", self._TEXT)
            conditions = set_conditions(old.get("conditions") or [], [refused], self._hub.now(), second=NO_SECOND)
            self._hub.write_status(self.kind, config, {**old, "conditions": conditions})
        return None
