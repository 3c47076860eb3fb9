"""The exceptions of the lab's cluster: one tree, each with one sentence and the fields a caller needs."""

from __future__ import annotations


class ClusterError(Exception):
    """Something about the lab's cluster failed."""


class ConfigError(ClusterError):
    """An input file is missing or malformed; names the file, the field and the rule."""

    def __init__(self, source: str, field: str, rule: str) -> None:
        super().__init__(f"{source}: {field}: {rule}" if field else f"{source}: {rule}")
        self.source = source
        self.field = field
        self.rule = rule


class PayloadError(ClusterError):
    """The release payload is not of the documented shape (reference/cluster.md §1)."""


class UnknownTag(PayloadError):
    """The release image has no component image of that name."""

    def __init__(self, tag: str, release: str) -> None:
        super().__init__(f"no image tag {tag!r} exists in the release image {release}")
        self.tag = tag


class ManifestError(ClusterError):
    """A manifest file cannot be read as Kubernetes objects."""


class ApiError(ClusterError):
    """The Kubernetes API answered with an error status, or could not be reached (``status`` 0)."""

    def __init__(self, method: str, path: str, status: int, message: str, *, reason: str = "") -> None:
        super().__init__(f"{method} {path}: {status or 'no answer'}: {message}")
        self.method = method
        self.path = path
        self.status = status
        self.message = message
        self.reason = reason


class ServiceError(ClusterError):
    """The service that installs the cluster answered with an error status, or could not be reached (``status`` 0)."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path} of the service: {status or 'no answer'}: {message}")
        self.status = status


class UnknownKind(ClusterError):
    """The API server does not serve this kind (yet)."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"no matches for kind {kind!r} in version {api_version!r}")
        self.api_version = api_version
        self.kind = kind


class WaitError(ClusterError):
    """A condition did not become true before its deadline."""

    def __init__(self, what: str, seconds: float, seen: str) -> None:
        super().__init__(f"{what}: not within {seconds:.0f} s; last seen: {seen}")
        self.what = what
        self.seconds = seconds
        self.seen = seen


class RolledBack(ClusterError):
    """A node went back to the revision of its static pods before."""

    def __init__(self, revision: int, before: int, reason: str) -> None:
        super().__init__(f"revision {revision} was rolled back to {before}: {reason}")


class EtcdError(ClusterError):
    """etcd refused a request, or no endpoint answered."""

    def __init__(self, request: str, seen: str) -> None:
        super().__init__(f"etcd {request}: {seen}")
        self.request = request
        self.seen = seen


class Stopped(ClusterError):
    """The version operator was told to stop in the middle of a pass."""


class LeaseLost(ClusterError):
    """Another instance of the version operator leads now: this one must not write any more."""


class AgentError(ClusterError):
    """A program that pacemaker's agent runs has failed."""

    def __init__(self, program: str, seen: str) -> None:
        super().__init__(f"{program}: {seen}")
        self.program = program
        self.seen = seen


class NetworkError(ClusterError):
    """A program that changes a node's network has failed."""

    def __init__(self, command: str, seen: str) -> None:
        super().__init__(f"{command}: {seen}")
        self.command = command
        self.seen = seen


class VolumeError(ClusterError):
    """A claim or a volume is none of this cluster's provisioner, or its directory cannot be made or removed."""
