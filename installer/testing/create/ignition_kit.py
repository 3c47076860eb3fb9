"""The agent ISO's Ignition config of an asset directory, without an ISO and without a registry."""

from pathlib import Path

from installer.config.state import State
from installer.create.stages.check import check
from installer.create.stages.read import read
from installer.create.stages.render import live_inputs
from installer.create.stages.resolve import ResolvedRelease
from installer.create.stages.secrets import secrets_for
from installer.ignition.live import IMAGE_VARIABLES, live_config


def live_ignition(directory: Path, release: str) -> bytes:
    """Made as `create image` makes it, of a release whose parts are made up. Raises InstallerError for bad inputs."""
    target = "Agent Installer Ignition"
    inputs = check(read(directory, target), target)
    parts = {name: f"{release.partition('@')[0]}/{name}@sha256:{'2' * 64}" for name in IMAGE_VARIABLES.values()}
    install = inputs.install
    secrets = secrets_for(State.load(directory), inputs.rendezvous_ip, install.metadata.name, install.base_domain)
    return live_config(live_inputs(inputs, ResolvedRelease(release, "4.21.0", parts), secrets))
