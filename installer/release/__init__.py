"""Reading a release payload: which images it names, and files out of them (reference/cluster.md §1).

Built on skopeo, which follows mirrors in registries.conf, speaks to registries with a pull secret, and checks every
blob against its digest. Used by the command line and, inside its container, by the rendezvous service:

    with RegistryAccess(pull_secret=..., sources=..., trust_bundle=...) as access:
        release = Release(pullspec, access)
        release.image_for("machine-os-images")
        release.extract(release.image_for("installer"), "usr/bin/openshift-install", dest)
"""

from installer.release.access import DigestSource, RegistryAccess, registries_conf
from installer.release.payload import Content, Release

__all__ = ["Content", "DigestSource", "RegistryAccess", "Release", "registries_conf"]
