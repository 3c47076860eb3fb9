"""Objects with secrets do not show them: texts of objects end in logs, in messages of errors, in failed asserts."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest

from installer.assisted.steparguments import RequestHeader
from installer.common.redact.names import sensitive
from installer.config.types.agent import Host
from installer.config.types.platform import BareMetalHost
from installer.ignition.live import HostFiles
from installer.image.iso.embed import Patch
from installer.image.iso.overlay import Segment
from installer.manifests.types import NMStateSpec, Secret
from installer.network.reading.model import Interface, Shape
from installer.rendezvous.client.manifests import Manifests
from lab.release.cluster.kube.payload import Manifest

# Fields with the name of a secret that hold none (a flag, a path), or hold objects that hide theirs.
NO_SECRETS = {
    "installer.waitfor.settings.Settings.print_password",
    "lab.release.registry.RegistryConfig.htpasswd",
    "installer.create.prefetch.Prefetched.credentials",
    "installer.config.types.install.Fencing.credentials",
    "lab.daemons.services.Prepared.credentials",
    "lab.subject.sources.Upstream.pull_secret",
}


#: Not importable here: it needs a library that only its benchmark installs.
NOT_IMPORTED = "ci.bench.service.conformity_hooks"


def modules() -> Iterator[str]:
    for room in ("installer", "lab", "drivers", "scenarios", "ci"):
        for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            rooms = set(module.name.split("."))
            if not {"tests", "testing", "redact", "__main__"} & rooms and module.name != NOT_IMPORTED:
                yield module.name


def shown(kind: type) -> list[str]:
    """Fields that the generated repr of a class shows."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.repr]
    if issubclass(kind, tuple) and kind.__repr__.__module__ == "collections":
        return list(getattr(kind, "_fields", ()))
    if issubclass(kind, msgspec.Struct) and kind.__repr__ is msgspec.Struct.__repr__:
        return list(kind.__struct_fields__)
    return []


def leaks(name: str) -> list[str]:
    module = importlib.import_module(name)
    own = [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == name]
    return [f"{name}.{kind.__name__}.{field}" for kind in own for field in shown(kind) if sensitive(field)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_secret_is_in_a_repr():
    pytest.importorskip("libvirt")
    assert sorted({leak for name in modules() for leak in leaks(name)} - NO_SECRETS) == []


def test_a_repr_with_a_secret_is_found():
    @dataclasses.dataclass
    class Bad:
        token: str

    class Worse(msgspec.Struct):
        password: str

    class Worst(NamedTuple):
        kubeconfig: str

    assert (shown(Bad), shown(Worse), shown(Worst)) == (["token"], ["password"], ["kubeconfig"])
    assert sensitive("token")
    assert sensitive("bmc_password")


def test_an_object_of_the_payload_is_not_shown():
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"x": "hidden"}}
    assert "hidden" not in repr(Manifest("0000_10_s.yaml", 10, "s", secret))


TEXT = {"password": "hidden"}


@pytest.mark.parametrize(
    "thing",
    [
        Host(network_config=TEXT), BareMetalHost(network_config=TEXT), NMStateSpec(config=TEXT), Secret(data=TEXT),
        HostFiles(network={"eth0.nmconnection": "password=hidden"}), RequestHeader(key="Authorization", value="hidden"),
        Interface("interfaces[0]", "eth0", "ethernet", "up", shape=Shape(), extra={"802-1x": TEXT}),
        Patch(0, b"hidden"), Segment(0, 6, b"hidden"),
        Manifests(TEXT, {}, {}, TEXT, pull_secret="hidden", nmstate=(TEXT,)),
    ],
    ids=lambda thing: f"{type(thing).__module__}.{type(thing).__name__}",
)  # fmt: skip
def test_a_document_with_a_secret_in_it_is_not_shown(thing):
    assert "hidden" not in repr(thing)
