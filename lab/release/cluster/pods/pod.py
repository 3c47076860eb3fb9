"""The form of static pods: Pod manifests for a kubelet, podman commands for the bootstrap host, from the same data.

All use the host's network: no CNI is needed for the control plane to come up.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from installer.common.formats import yamltext
from lab.release.cluster.kube.payload import Images

RESOURCES = "/etc/kubernetes/static-pod-resources"
#: How often a container of the bootstrap is started again, one after the other without a pause, before it stays away.
RESTARTS = 30
#: The annotation of a static pod with the hash of what it is made of; its processes have the variable, too, so that a
#: node without its API can tell those of one revision from those of the one before.
CONTENT, CONTENT_ENV = "node0.example/content", "STATIC_POD_CONTENT"


@dataclass(frozen=True)
class Probe:
    """A readiness probe: GET of a path on the host."""

    path: str
    port: int
    scheme: str = "HTTP"

    def spec(self) -> dict[str, object]:
        """Return the probe in a Pod's form: as often as OpenShift's, and patient, for hosts that emulate their CPU."""
        get = {"path": self.path, "port": self.port, "scheme": self.scheme, "host": "localhost"}
        # A kubelet's first look comes at a random moment of the first period: everybody waits for a longer one.
        return {"httpGet": get, "periodSeconds": 5, "timeoutSeconds": 10, "failureThreshold": 12}


@dataclass(frozen=True)
class StaticPod:
    """One container on the host's network.

    ``secrets`` is the directory under RESOURCES that it sees; ``mounts`` are further host paths, path to read-only.
    """

    name: str
    namespace: str
    tag: str
    command: tuple[str, ...]
    labels: dict[str, str]
    secrets: str
    mounts: dict[str, bool] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    readiness: Probe | None = None
    cpu: str = "10m"
    memory: str = "50Mi"
    grace_seconds: int = 30
    privileged: bool = False

    def _mounts(self) -> dict[str, bool]:
        return {f"{RESOURCES}/{self.secrets}": True, **self.mounts}

    def manifest(self, images: Images, content: str = "") -> str:
        """Return the Pod as YAML for the kubelet's static pod directory, with the hash of its content if there is
        one."""
        paths = self._mounts()
        env = self.env | ({CONTENT_ENV: f"{self.name}/{content}"} if content else {})
        container: dict[str, object] = {
            "name": self.name,
            "image": images[self.tag],
            "imagePullPolicy": "IfNotPresent",
            "command": list(self.command),
            "env": [{"name": key, "value": value} for key, value in env.items()],
            "resources": {"requests": {"cpu": self.cpu, "memory": self.memory}},
            "volumeMounts": [
                {"name": f"host-{index}", "mountPath": path, "readOnly": read_only}
                for index, (path, read_only) in enumerate(paths.items())
            ],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        if self.readiness is not None:
            container["readinessProbe"] = self.readiness.spec()
        if self.privileged:
            container["securityContext"] = {"privileged": True}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": self.labels}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata | ({"annotations": {CONTENT: content}} if content else {}),
            "spec": {
                "hostNetwork": True,
                "dnsPolicy": "Default",
                "priorityClassName": "system-node-critical",
                "priority": 2000001000,
                "terminationGracePeriodSeconds": self.grace_seconds,
                "tolerations": [{"operator": "Exists"}],
                "containers": [container],
                "volumes": [
                    {"name": f"host-{index}", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
                    for index, path in enumerate(paths)
                ],
            },
        }
        return yamltext.dump(pod)  # PyYAML leaves a hash of digits plain, as which the kubelet takes no annotation

    def podman(self, images: Images) -> str:
        """Its container as one shell command, for the bootstrap host."""
        argv = ["podman", "run", "--quiet", "--detach", "--name", self.name, "--net", "host", "--authfile"]
        argv += ["/root/.docker/config.json", "--log-driver", "journald", "--stop-timeout", str(self.grace_seconds)]
        # A kubelet would start again what was killed, and nothing else of the bootstrap watches over it.
        argv += ["--restart", f"on-failure:{RESTARTS}"]
        # podman hands on the proxies of the host; etcd would ask them for its own gateway.
        argv.append("--http-proxy=false")
        if self.privileged:
            argv.append("--privileged")
        for path, read_only in self._mounts().items():
            argv += ["--volume", f"{path}:{path}" + (":ro" if read_only else "")]
        for key, value in self.env.items():
            argv += ["--env", f"{key}={value}"]
        argv += ["--entrypoint", self.command[0], images[self.tag], *self.command[1:]]
        return shlex.join(argv)


@dataclass(frozen=True)
class Stage:
    """Static pods that may start together; those of the next stage need them."""

    name: str
    pods: list[StaticPod]
