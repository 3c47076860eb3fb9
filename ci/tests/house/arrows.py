"""Which room may import which. test_arrows.py holds every module against it."""

from __future__ import annotations

#: Which room may import which, itself aside; `lab.*` is lab and all rooms in it. A module is in the room with the
#: longest name that it begins with. The single modules of installer/ (errors, progress, ...) are everybody's there.
ALLOWED: dict[str, set[str]] = {
    "installer.agent": {
        "installer.agent.checks", "installer.agent.errors", "installer.agent.host", "installer.assisted",
        "installer.hostsys",
    },
    "installer.agent.errors": set(),
    "installer.agent.host": {"installer.agent.errors", "installer.assisted", "installer.hostsys"},
    "installer.agent.checks": {
        "installer.agent.errors", "installer.agent.host", "installer.assisted", "installer.hostsys",
    },
    "installer.agent.swarm": {"installer.agent", "installer.agent.errors", "installer.assisted", "installer.hostsys"},
    "installer.assisted": set(),
    "installer.config": {
        "installer.config.decode", "installer.config.fielderror", "installer.config.types", "installer.config.values",
    },
    "installer.config.decode": set(),
    "installer.config.fielderror": set(),
    "installer.config.types": {"installer.config.decode", "installer.config.values"},
    "installer.config.values": set(),
    "installer.config.rules": {
        "installer.config", "installer.config.fielderror", "installer.config.types", "installer.config.values",
    },
    "installer.config.rules.platforms": {
        "installer.config", "installer.config.fielderror", "installer.config.rules", "installer.config.types",
        "installer.config.values",
    },
    # Parses, then asks the rules.
    "installer.config.load": {
        "installer.config", "installer.config.decode", "installer.config.fielderror", "installer.config.rules",
        "installer.config.types",
    },
    "installer.config.rendezvous": {"installer.config.rules", "installer.config.types"},
    "installer.create": {
        "installer.config", "installer.config.load", "installer.config.types", "installer.create.outputs",
        "installer.create.stages", "installer.credentials", "installer.ignition", "installer.image",
        "installer.image.copy", "installer.image.cpio", "installer.image.iso", "installer.manifests",
        "installer.release",
    },
    "installer.create.outputs": set(),
    "installer.create.stages": {
        "installer.config", "installer.config.decode", "installer.config.fielderror", "installer.config.load",
        "installer.config.rendezvous", "installer.config.types", "installer.config.values", "installer.create.outputs",
        "installer.credentials", "installer.ignition", "installer.manifests", "installer.network", "installer.release",
    },
    "installer.credentials": set(),
    "installer.formats": set(),
    "installer.gather": {"installer.assisted", "installer.ignition", "installer.observe"},
    "installer.hostsys": {"installer.assisted"},
    "installer.ignition": {"installer.image.cpio"},
    "installer.image": {"installer.image.copy", "installer.image.cpio", "installer.image.iso"},
    "installer.image.copy": set(),
    "installer.image.cpio": set(),
    "installer.image.iso": {"installer.image.copy", "installer.image.cpio"},
    "installer.iso_tool": {"installer.image.iso"},
    "installer.manifests": {
        "installer.config.decode", "installer.config.fielderror", "installer.config.load", "installer.config.types",
        "installer.config.values", "installer.release",
    },
    # Reads, then makes profiles of what the model has; errors and the keyfile's format are everybody's there.
    "installer.network": {
        "installer.network.errors", "installer.network.interfaces", "installer.network.keyfile",
        "installer.network.profiles", "installer.network.reading",
    },
    "installer.network.errors": set(),
    "installer.network.keyfile": set(),
    "installer.network.reading": {"installer.network.errors"},
    "installer.network.interfaces": {"installer.network.keyfile", "installer.network.reading"},
    "installer.network.profiles": {
        "installer.network.interfaces", "installer.network.keyfile", "installer.network.reading",
    },
    "installer.observe": {"installer.assisted", "installer.release"},
    "installer.orchestrator": {"installer.assisted", "installer.hostsys", "installer.ignition"},
    "installer.redact": set(),
    "installer.redact.testing": set(),
    "installer.release": {"installer.image.cpio"},
    "installer.rendezvous": {"installer.assisted", "installer.release", "installer.rendezvous.store"},
    "installer.rendezvous.eventloop": set(),
    "installer.rendezvous.store": {"installer.assisted"},
    "installer.rendezvous.states": {"installer.assisted"},
    "installer.rendezvous.validations": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.states", "installer.rendezvous.store",
    },
    "installer.rendezvous.validations.cluster": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.states", "installer.rendezvous.store",
        "installer.rendezvous.validations",
    },
    "installer.rendezvous.steps": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.store",
        "installer.rendezvous.validations",
    },
    "installer.rendezvous.reconcile": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.states", "installer.rendezvous.steps",
        "installer.rendezvous.store", "installer.rendezvous.validations",
        "installer.rendezvous.validations.cluster",
    },
    "installer.rendezvous.prepare": {
        "installer.assisted", "installer.ignition", "installer.release", "installer.rendezvous",
        "installer.rendezvous.store", "installer.rendezvous.validations",
    },
    "installer.rendezvous.resources.requests": {"installer.assisted", "installer.rendezvous.store"},
    "installer.rendezvous.resources": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.prepare",
        "installer.rendezvous.reconcile", "installer.rendezvous.resources.requests", "installer.rendezvous.states",
        "installer.rendezvous.steps", "installer.rendezvous.store", "installer.rendezvous.validations",
        "installer.rendezvous.validations.cluster",
    },
    "installer.rendezvous.api": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.eventloop", "installer.rendezvous.prepare",
        "installer.rendezvous.reconcile", "installer.rendezvous.resources",
        "installer.rendezvous.resources.requests", "installer.rendezvous.store",
    },
    "installer.rendezvous.api.handlers": {
        "installer.assisted", "installer.rendezvous.api", "installer.rendezvous.prepare",
        "installer.rendezvous.resources", "installer.rendezvous.resources.requests", "installer.rendezvous.store",
        "installer.rendezvous.validations",
    },
    "installer.rendezvous.page": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.api", "installer.rendezvous.reconcile",
        "installer.rendezvous.store", "installer.rendezvous.validations",
    },
    "installer.rendezvous.api.app": {  # puts the service, the routes and the page together
        "installer.assisted", "installer.rendezvous.api", "installer.rendezvous.api.handlers",
        "installer.rendezvous.page",
    },
    "installer.rendezvous.api.serving": {
        "installer.assisted", "installer.rendezvous.api", "installer.rendezvous.api.app",
        "installer.rendezvous.eventloop",
    },
    "installer.rendezvous.discovery": {
        "installer.assisted", "installer.ignition", "installer.image", "installer.image.iso", "installer.network",
        "installer.release", "installer.rendezvous", "installer.rendezvous.prepare", "installer.rendezvous.store",
    },
    "installer.rendezvous.client": {"installer.assisted", "installer.rendezvous", "installer.rendezvous.validations"},
    "installer.rendezvous.__main__": {
        "installer.assisted", "installer.rendezvous", "installer.rendezvous.api", "installer.rendezvous.api.serving",
        "installer.rendezvous.prepare", "installer.rendezvous.reconcile", "installer.rendezvous.store",
        "installer.rendezvous.validations",
    },
    "installer.rendezvous.standalone": {
        "installer.assisted", "installer.credentials", "installer.release", "installer.rendezvous",
        "installer.rendezvous.__main__",
        "installer.rendezvous.api", "installer.rendezvous.discovery", "installer.rendezvous.store",
        "installer.rendezvous.validations",
    },
    "installer.waitfor": {"installer.assisted", "installer.observe"},
    "installer.testing": {"installer.*"},
    "installer.tests": {"installer.*"},
    "drivers": set(),
    "drivers.redfish": {"drivers"},
    "drivers.tests": {"drivers", "drivers.redfish"},
    "lab": {"lab.topology"},  # what all of lab/ speaks of: errors, layout, configs, derive, waiting
    "lab.textfiles": set(),
    "lab.topology": {"lab.textfiles"},
    "lab.bmcs": set(),  # behind them is the emulator, which lab.daemons puts there
    "lab.bmcs.resources": {"lab.bmcs"},
    "lab.bmcs.front": {"lab.bmcs", "lab.bmcs.resources"},  # puts them together
    "lab.host": {"lab", "lab.topology"},
    "lab.supervisor": {"lab", "lab.host"},
    "lab.daemons": {
        "drivers", "lab", "lab.bmcs", "lab.bmcs.front", "lab.daemons.switch", "lab.host", "lab.inputs", "lab.machines",
        "lab.machines.container", "lab.machines.container.kernel", "lab.supervisor", "lab.topology",
    },
    "lab.daemons.switch": {
        "lab", "lab.host", "lab.machines", "lab.machines.container.hardware",
    },
    "lab.machines": {
        "drivers", "drivers.redfish", "lab", "lab.bmcs", "lab.host", "lab.machines.container",
        "lab.machines.container.hardware",
        "lab.machines.container.kernel", "lab.machines.container.spec", "lab.topology",
    },
    "lab.machines.container.errors": set(),
    "lab.machines.container": {
        "drivers", "lab.host", "lab.machines.container.errors", "lab.machines.container.fence",
        "lab.machines.container.firmware.formats", "lab.machines.container.hardware", "lab.machines.container.kernel",
        "lab.machines.container.spec",
    },
    "lab.machines.container.kernel": {"lab.host"},
    "lab.machines.container.hardware": {
        "lab.machines.container.firmware.formats", "lab.machines.container.kernel", "lab.machines.container.spec",
    },
    "lab.machines.container.fence": {
        "lab.host", "lab.machines.container.errors", "lab.machines.container.hardware", "lab.machines.container.kernel",
        "lab.machines.container.spec",
    },
    # From power-on to the root: formats < loaders; the early boot runs in another process, with the machine's rights.
    "lab.machines.container.firmware": {
        "lab.machines.container.errors", "lab.machines.container.fence",
        "lab.machines.container.firmware.early", "lab.machines.container.firmware.errors",
        "lab.machines.container.firmware.formats", "lab.machines.container.firmware.loaders",
        "lab.machines.container.firmware.netboot", "lab.machines.container.firmware.screen",
        "lab.machines.container.kernel", "lab.machines.container.spec",
    },
    "lab.machines.container.firmware.formats": set(),
    "lab.machines.container.firmware.netboot": {
        "lab.host", "lab.machines.container.spec",
    },
    "lab.machines.container.firmware.loaders": {
        "lab.machines.container.firmware.errors",
    },
    "lab.machines.container.firmware.early": {
        "lab.machines.container.firmware.errors", "lab.machines.container.firmware.formats",
        "lab.machines.container.firmware.screen", "lab.machines.container.kernel",
    },
    "lab.machines.container.firmware.errors": {"lab.machines.container.errors"},
    "lab.machines.container.firmware.screen": set(),
    "lab.machines.container.spec": set(),
    "lab.running": {"lab", "lab.machines", "lab.supervisor"},
    "lab.evidence": {"drivers", "lab", "lab.machines", "lab.running", "lab.supervisor"},
    "lab.faults": {
        "drivers", "lab", "lab.daemons", "lab.daemons.switch", "lab.machines", "lab.release.cluster", "lab.running",
        "lab.subject",
    },
    "lab.connection": {"drivers", "lab", "lab.host", "lab.machines", "lab.supervisor"},
    "lab.lab": {
        "drivers", "drivers.redfish", "lab", "lab.bmcs", "lab.connection", "lab.daemons", "lab.evidence", "lab.faults",
        "lab.host",
        "lab.inputs", "lab.machines", "lab.subject", "lab.supervisor", "lab.topology",
    },
    "lab.derive": {"lab", "lab.release.cluster", "lab.topology"},
    "lab.subject": {"lab", "lab.release", "lab.release.stage", "lab.topology"},
    "lab.seam": {"lab.subject"},
    "lab.boots": {"lab", "lab.lab", "lab.machines", "lab.subject", "lab.topology"},
    "lab.inputs": {"lab", "lab.derive", "lab.textfiles", "lab.topology"},
    "lab.deploy": {
        "lab", "lab.boots", "lab.derive", "lab.lab", "lab.seam", "lab.subject", "lab.topology",
        "lab.inputs", "lab.textfiles",
    },
    "lab.commands": {
        "drivers", "lab", "lab.bmcs", "lab.deploy", "lab.derive", "lab.faults", "lab.host", "lab.lab", "lab.machines",
        "lab.subject", "lab.supervisor", "lab.topology", "lab.inputs",
    },
    "lab.release": {"lab.release.image", "lab.release.os", "lab.release.stage"},
    "lab.release.stage": set(),
    "lab.release.image": {"lab.release.stage"},
    "lab.release.cluster": set(),  # runs in containers that hold nothing else of the lab
    "lab.release.cluster.pki": {"lab.release.cluster"},
    "lab.release.cluster.kube": {"lab.release.cluster", "lab.release.cluster.pki"},
    "lab.release.cluster.pods": {"lab.release.cluster", "lab.release.cluster.kube", "lab.release.cluster.pki"},
    "lab.release.cluster.ignition": {"lab.release.cluster", "lab.release.cluster.kube", "lab.release.cluster.pods"},
    "lab.release.cluster.nodes": {
        "lab.release.cluster", "lab.release.cluster.ignition", "lab.release.cluster.kube", "lab.release.cluster.pki",
        "lab.release.cluster.pods",
    },
    "lab.release.cluster.fencing": {"lab.release.cluster", "lab.release.cluster.nodes", "lab.release.cluster.pods"},
    "lab.release.cluster.openshift_install": {
        "lab.release.cluster", "lab.release.cluster.ignition", "lab.release.cluster.kube", "lab.release.cluster.pki",
    },
    "lab.release.cluster.bootkube": {
        "lab.release.cluster", "lab.release.cluster.ignition", "lab.release.cluster.kube",
        "lab.release.cluster.nodes", "lab.release.cluster.pki", "lab.release.cluster.pods",
    },
    "lab.release.cluster.version_operator": {
        "lab.release.cluster", "lab.release.cluster.ignition", "lab.release.cluster.kube",
        "lab.release.cluster.nodes",
    },
    "lab.release.cluster.controller": {"lab.release.cluster", "lab.release.cluster.kube", "lab.release.cluster.pki"},
    "lab.release.cluster.machine_config_server": {
        "lab.release.cluster", "lab.release.cluster.ignition", "lab.release.cluster.kube",
    },
    "lab.release.cluster.console": {"lab.release.cluster", "lab.release.cluster.kube"},
    "lab.release.os": {
        "lab.release.os.customise", "lab.release.os.errors", "lab.release.os.media", "lab.release.stage",
    },
    "lab.release.os.errors": {"lab.release.stage"},
    "lab.release.os.customise": {"lab.release.os.errors", "lab.release.stage"},
    "lab.release.os.media": {"lab.release.os.customise", "lab.release.os.errors", "lab.release.stage"},
    "lab.testing": {"lab.*", "drivers", "drivers.redfish"},
    "lab.tests": {"lab.*", "drivers", "drivers.redfish"},
    "scenarios.testing.cluster": {"lab.deploy", "lab.lab", "lab.subject", "lab.topology"},  # what a test is given
    "scenarios.catalogue": {
        "drivers", "lab", "lab.bmcs", "lab.deploy", "lab.faults", "lab.host", "lab.inputs",
        "lab.topology", "scenarios.testing.cluster",
    },
    "scenarios.testing": {
        "drivers", "lab", "lab.deploy", "lab.evidence", "lab.host", "lab.inputs", "lab.lab", "lab.subject",
        "scenarios.catalogue", "scenarios.testing.cluster",
    },
    "scenarios": {"lab.*", "drivers", "scenarios.catalogue", "scenarios.testing", "scenarios.testing.cluster"},
    "ci": {"ci.bench.measure", "lab", "lab.host", "lab.release", "lab.topology", "scenarios.catalogue"},
    "ci.errors": set(),
    "ci.bench.measure": set(),
    "ci.bench": {
        "ci", "ci.bench.measure", "installer.testing", "lab", "lab.bmcs", "lab.host", "lab.lab", "lab.release",
        "lab.release.os", "lab.testing", "lab.topology", "scenarios.catalogue",
    },
    "ci.bench.installs": {
        "ci.bench", "ci.bench.measure", "lab.deploy", "lab.host", "lab.inputs", "lab.lab", "lab.release",
        "lab.subject", "lab.topology", "scenarios.catalogue",
    },
    "ci.bench.service": {"ci.bench.measure", "installer.testing", "lab.host"},
    "ci.bench.oracle": {"ci.bench.measure", "installer.testing", "lab"},
    "ci.bench.__main__": {  # names all measurements
        "ci.bench", "ci.bench.installs", "ci.bench.measure", "ci.bench.oracle", "ci.bench.service",
        "scenarios.catalogue",
    },
    "ci.informer": {
        "ci.informer.arithmetic", "ci.informer.engine", "ci.informer.errors", "ci.informer.history",
        "ci.informer.judging", "lab.subject", "lab.topology",
    },
    "ci.informer.cli": {"ci.informer.commands", "ci.informer.errors", "lab"},
    "ci.informer.commands": {
        "ci.informer", "ci.informer.arithmetic", "ci.informer.engine", "ci.informer.errors", "ci.informer.history",
        "ci.informer.judging", "ci.informer.pages", "lab", "lab.host", "lab.subject", "lab.topology",
        "scenarios.catalogue",
    },
    "ci.informer.engine": {
        "ci.informer.arithmetic", "ci.informer.errors", "ci.informer.history", "lab", "lab.daemons", "lab.host",
        "lab.subject", "lab.topology", "scenarios.catalogue",
    },
    "ci.informer.errors": {"ci.errors"},
    "ci.informer.history": {"ci.informer.arithmetic", "ci.informer.errors", "lab.evidence", "lab.topology"},
    "ci.informer.arithmetic": set(),
    "ci.informer.judging": {"ci.informer.arithmetic", "ci.informer.errors", "ci.informer.history"},
    "ci.informer.pages": {
        "ci.informer", "ci.informer.arithmetic", "ci.informer.errors", "ci.informer.history", "ci.informer.judging",
    },
    "ci.informer.tests": {
        "ci.informer.*", "drivers", "lab", "lab.daemons", "lab.host", "lab.release", "lab.subject",
        "scenarios.catalogue",
    },
    "ci.tests": {"ci.*", "scenarios.*", "lab.*", "drivers", "installer.*"},
}  # fmt: skip
