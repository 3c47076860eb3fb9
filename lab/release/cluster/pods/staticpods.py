"""The static pods of the cluster's nodes, as data."""

from __future__ import annotations

from collections.abc import Iterable

from lab.release.cluster.installconfig import InstallConfig
from lab.release.cluster.pods.pod import RESOURCES, Probe, Stage, StaticPod

ETCD_DATA = "/var/lib/etcd"
#: The API server's option with the members of etcd that it asks.
ETCD_SERVERS = "--etcd-servers"
#: On the node, and where the version operator reads the payloads of releases to go to.
PAYLOADS = "/etc/cvo/updatepayloads"
#: OpenShift's own requests, which the kernel turns into shares of a busy CPU: with little of it, etcd missed its
#: heartbeats while an API server started beside it, and the whole cluster had no leader for minutes.
ETCD_CPU = "300m"
API_CPU = "265m"
#: Waking one of Go's schedulers wakes the others, which then find no work. Measured side by side on two emulated CPUs,
#: an API server with one took 0.89 of the CPU time until it was ready and 0.81 of it at rest, etcd 0.84 and 0.88.
ONE_SCHEDULER = {"GOMAXPROCS": "1"}


def _pair(option: str, secrets: str, name: str) -> tuple[str, str]:
    return f"--{option}-cert-file={secrets}/{name}.crt", f"--{option}-private-key-file={secrets}/{name}.key"


def url_host(ip: str) -> str:
    """Return an address as written in a URL."""
    return f"[{ip}]" if ":" in ip else ip


def peer_url(node_ip: str) -> str:
    """Return the URL on which an etcd member listens for its peers."""
    return f"https://{url_host(node_ip)}:2380"


def etcd(node_ip: str, member: str, peers: str = "", *, alone: bool = False, listen: str = "0.0.0.0") -> StaticPod:
    """One etcd member; with ``peers`` (``name=url,...``, itself included) it joins those, else it begins a cluster.
    It listens at the address ``listen``, and is known by ``node_ip``.

    Heartbeats are stretched: under software emulation a member may stall for a second. Not those of one that stays
    ``alone``: nobody waits for them, but at each start it elects itself only after one to ten of them, drawn by lot,
    and answers nobody until then.
    """
    heartbeat = 100 if alone else 750
    secrets = f"{RESOURCES}/etcd-certs"
    host = url_host(node_ip)
    tls = [f"--{kind}client-cert-auth=true" for kind in ("", "peer-")]
    tls += [f"--{kind}trusted-ca-file={secrets}/ca.crt" for kind in ("", "peer-")]
    tls += [f"--{kind}cert-file={secrets}/server.crt" for kind in ("", "peer-")]
    tls += [f"--{kind}key-file={secrets}/server.key" for kind in ("", "peer-")]
    return StaticPod(
        name="etcd",
        namespace="openshift-etcd",
        tag="etcd",
        command=(
            "etcd",
            f"--name={member}",
            f"--data-dir={ETCD_DATA}",
            f"--listen-client-urls=https://{url_host(listen)}:2379",
            f"--advertise-client-urls=https://{host}:2379",
            f"--listen-peer-urls=https://{url_host(listen)}:2380",
            f"--initial-advertise-peer-urls={peer_url(node_ip)}",
            f"--initial-cluster={peers or f'{member}={peer_url(node_ip)}'}",
            f"--initial-cluster-state={'existing' if peers else 'new'}",
            "--listen-metrics-urls=http://127.0.0.1:2381",
            f"--heartbeat-interval={heartbeat}",
            f"--election-timeout={10 * heartbeat}",
            # A look each 100 ms whether there is something to commit, and a commit for each write, cost a quarter of an
            # idle member's CPU; what the database has not yet is in the log.
            "--backend-batch-interval=1s",
            "--auto-compaction-retention=30m",
            "--logger=zap",
            "--log-level=warn",
            *tls,
        ),
        labels={"app": "etcd", "k8s-app": "etcd", "etcd": "true"},
        secrets="etcd-certs",
        mounts={ETCD_DATA: False},
        env=ONE_SCHEDULER,
        readiness=Probe("/health", 2381),
        cpu=ETCD_CPU,
        memory="100Mi",
    )


def etcd_tools() -> StaticPod:
    """Return the pod in etcd's place where pacemaker runs etcd: etcdctl with all that it needs to know."""
    secrets = f"{RESOURCES}/etcd-certs"
    files = {"CACERT": "ca.crt", "CERT": "server.crt", "KEY": "server.key"}
    return StaticPod(
        name="etcd",
        namespace="openshift-etcd",
        tag="etcd",
        command=(
            "sh",
            "-c",
            "trap 'exit 0' TERM; echo 'pacemaker runs etcd on this node: podman logs etcd'; sleep infinity & wait",
        ),
        labels={"app": "etcd", "k8s-app": "etcd", "etcd": "true"},
        secrets="etcd-certs",
        env={
            "ETCDCTL_API": "3",
            "ETCDCTL_ENDPOINTS": "https://localhost:2379",
            **{f"ETCDCTL_{name}": f"{secrets}/{file}" for name, file in files.items()},
        },
        readiness=Probe("/health", 2381),
    )


#: Beta APIs with a final version in 1.20, or that nobody uses. Without them the API server starts a quarter sooner
#: (2.4 instead of 3.2 CPU seconds natively, ten times that emulated, twice in an installation) and is 90 MB smaller.
RETIRED_APIS = (
    "admissionregistration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v2beta1",
    "autoscaling/v2beta2",
    "certificates.k8s.io/v1beta1",
    "coordination.k8s.io/v1beta1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1beta1",
    "scheduling.k8s.io/v1beta1",
    "storage.k8s.io/v1beta1",
)


def feature_gates(config: InstallConfig) -> list[str]:
    """Return Kubernetes 1.20's gates for two families: without them the API server drops a node's second pod
    (pkg/registry/core/node/strategy.go)."""
    return ["--feature-gates=IPv6DualStack=true"] if config.dual_stack else []


#: Jobs go by their `ttlSecondsAfterFinished`, as from Kubernetes 1.21 on by default; without it 1.20 drops the field.
FINISHED_JOBS = "--feature-gates=TTLAfterFinished=true"


def client_urls(node_ip: str, servers: Iterable[str]) -> str:
    """Return the members of etcd that a node's API server asks in turn: its own, and those at the other addresses of
    ``servers``, sorted."""
    others = (f"https://{url_host(ip)}:2379" for ip in servers if ip != node_ip)
    return ",".join(sorted(["https://localhost:2379", *others]))


def kube_apiserver(config: InstallConfig, node_ip: str, servers: Iterable[str] = ()) -> StaticPod:
    """Return the API server, with a serving certificate for each name by which it is reached; it asks the members of
    etcd at the addresses ``servers`` beside its own."""
    secrets = f"{RESOURCES}/kube-apiserver-certs"
    sni = [
        f"--tls-sni-cert-key={secrets}/{name}.crt,{secrets}/{name}.key"
        for name in ("localhost-server", "localhost-recovery", "lb-server", "internal-lb-server")
    ]
    return StaticPod(
        name="kube-apiserver",
        namespace="openshift-kube-apiserver",
        tag="hyperkube",
        command=(
            "kube-apiserver",
            f"--advertise-address={node_ip}",
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            f"--bind-address={config.any_address}",
            f"--client-ca-file={secrets}/client-ca.crt",
            "--enable-admission-plugins=NodeRestriction",
            # To the pods behind webhooks and aggregated APIs itself, as OpenShift's: without it, kube-proxy's choice
            # is taken, and that learns late that a node is gone.
            "--enable-aggregator-routing=true",
            # Its queues are for hundreds of clients; its book-keeping took 40 % of an idle server's CPU.
            "--enable-priority-and-fairness=false",
            f"--etcd-cafile={secrets}/etcd-ca.crt",
            f"--etcd-certfile={secrets}/etcd-client.crt",
            # For metrics alone it counts the objects of each kind, 40 reads a minute of each server, and asks each
            # member for its state.
            "--etcd-count-metric-poll-period=0",
            "--etcd-db-metric-poll-interval=0",
            f"--etcd-keyfile={secrets}/etcd-client.key",
            f"{ETCD_SERVERS}={client_urls(node_ip, servers)}",
            # A Service may prefer endpoints of the node that asks: the cluster's DNS does.
            "--feature-gates=ServiceTopology=true",
            FINISHED_JOBS,
            *feature_gates(config),
            "--insecure-port=0",
            f"--kubelet-certificate-authority={secrets}/kubelet-ca.crt",
            f"--kubelet-client-certificate={secrets}/kubelet-client.crt",
            f"--kubelet-client-key={secrets}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
            f"--proxy-client-cert-file={secrets}/aggregator-client.crt",
            f"--proxy-client-key-file={secrets}/aggregator-client.key",
            "--requestheader-allowed-names=system:kube-apiserver-proxy",
            f"--requestheader-client-ca-file={secrets}/aggregator-ca.crt",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--runtime-config={','.join(f'{api}=false' for api in RETIRED_APIS)}",
            "--secure-port=6443",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={secrets}/service-account.crt",
            f"--service-account-signing-key-file={secrets}/service-account.key",
            f"--service-cluster-ip-range={','.join(config.service_networks)}",
            "--storage-backend=etcd3",
            # The few clients of a small cluster watch etcd more cheaply than a cache of every kind watches it for them:
            # an idle server takes half the CPU.
            "--watch-cache=false",
            *_pair("tls", secrets, "service-network-server"),
            *sni,
        ),
        labels={"app": "openshift-kube-apiserver", "apiserver": "true"},
        secrets="kube-apiserver-certs",
        env=ONE_SCHEDULER,
        readiness=Probe("/readyz", 6443, "HTTPS"),
        cpu=API_CPU,
        memory="400Mi",
        # Its watchers would keep it for a minute, in which it takes no new connection.
        grace_seconds=15,
    )


#: All that Kubernetes switches on, without a cloud's. Nodes get their pod networks of network/podnetworks.py.
CONTROLLERS = "*,-cloud-node-lifecycle,-nodeipam,-route,-service"


def _led(secrets: str) -> list[str]:
    """Return the options of what runs on every control plane node and works on one, for local clients only."""
    kubeconfig = f"{secrets}/kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        # Else it watches kube-system/extension-apiserver-authentication three times over, each for 10 s at a time
        # (it limits those requests as if they were no watches): a request a second of three instances, all of it
        # for clients with certificates, which it has not.
        "--authentication-skip-lookup=true",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=true",
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=45s",
        "--leader-elect-retry-period=10s",
        "--port=0",
        # Else it makes itself an RSA key at each start, and signs with it at each of the kubelet's probes.
        *_pair("tls", secrets, "localhost"),
    ]


def kube_controller_manager(config: InstallConfig) -> StaticPod:
    """Return the controller manager with the controllers of CONTROLLERS; it signs the nodes' CSRs."""
    secrets = f"{RESOURCES}/kube-controller-manager-certs"
    return StaticPod(
        name="kube-controller-manager",
        namespace="openshift-kube-controller-manager",
        tag="hyperkube",
        command=(
            "kube-controller-manager",
            "--allocate-node-cidrs=false",
            f"--cluster-signing-cert-file={secrets}/csr-signer.crt",
            f"--cluster-signing-key-file={secrets}/csr-signer.key",
            "--cluster-signing-duration=720h",
            f"--controllers={CONTROLLERS}",
            "--configure-cloud-routes=false",
            FINISHED_JOBS,
            *feature_gates(config),
            *_led(secrets),
            f"--node-monitor-grace-period={config.node_grace_seconds}s",
            f"--root-ca-file={secrets}/service-ca-bundle.crt",
            "--secure-port=10257",
            f"--service-account-private-key-file={secrets}/service-account.key",
            f"--service-cluster-ip-range={config.service_networks[0]}",
            "--use-service-account-credentials=false",
        ),
        labels={"app": "kube-controller-manager", "kube-controller-manager": "true"},
        secrets="kube-controller-manager-certs",
        env=ONE_SCHEDULER,
        readiness=Probe("/healthz", 10257, "HTTPS"),
        memory="100Mi",
    )


def kube_scheduler(config: InstallConfig) -> StaticPod:
    """Return the scheduler, which puts pods without a node on one, a DaemonSet's too."""
    secrets = f"{RESOURCES}/kube-scheduler"
    return StaticPod(
        name="kube-scheduler",
        namespace="openshift-kube-scheduler",
        tag="hyperkube",
        command=(
            "kube-scheduler",
            *feature_gates(config),
            *_led(secrets),
            "--secure-port=10259",
        ),
        labels={"app": "openshift-kube-scheduler", "scheduler": "true"},
        secrets="kube-scheduler",
        env=ONE_SCHEDULER,
        readiness=Probe("/healthz", 10259, "HTTPS"),
        memory="50Mi",
    )


def machine_config_server(bootstrap: bool = False) -> StaticPod:
    """Serve machine configs on 22623 and 22624: from the API, or, on the bootstrap host, from files."""
    secrets = f"{RESOURCES}/machine-config-server"
    verb = "bootstrap" if bootstrap else "start"
    source = () if bootstrap else (f"--kubeconfig={secrets}/kubeconfig",)
    return StaticPod(
        name="machine-config-server",
        namespace="openshift-machine-config-operator",
        tag="machine-config-operator",
        command=("/usr/bin/machine-config-server", verb, f"--dir={secrets}", *source),
        labels={"k8s-app": "machine-config-server"},
        secrets="machine-config-server",
        readiness=Probe("/healthz", 22624),
    )


def cluster_version_operator(release_image: str) -> StaticPod:
    """Apply the payload and reports on the cluster; sees its own node's names and the lab operators' inputs."""
    secrets = f"{RESOURCES}/cluster-version-operator"
    return StaticPod(
        name="cluster-version-operator",
        namespace="openshift-cluster-version",
        tag="cluster-version-operator",
        command=(
            "/usr/bin/cluster-version-operator",
            "start",
            f"--release-image={release_image}",
            f"--kubeconfig={secrets}/kubeconfig",
            f"--dir={secrets}",
        ),
        labels={"k8s-app": "cluster-version-operator"},
        secrets="cluster-version-operator",
        # It writes certificates that have been renewed, of all static pods of its node (pki/syncer.py).
        mounts={secrets: False, RESOURCES: False, PAYLOADS: False},
    )


APPROVER = "assisted-installer-controller"


def assisted_installer_controller() -> StaticPod:
    """Approves the nodes' CSRs."""
    secrets = f"{RESOURCES}/{APPROVER}"
    return StaticPod(
        name=APPROVER,
        namespace="assisted-installer",
        tag="agent-installer-csr-approver",
        command=(f"/usr/bin/{APPROVER}", f"--kubeconfig={secrets}/kubeconfig"),
        labels={"app": APPROVER, "job-name": APPROVER},
        secrets=APPROVER,
    )


def keepalived() -> StaticPod:
    """Hold the virtual IPs; its configuration was filled in on the host (reference/cluster.md §6.1)."""
    config = f"{RESOURCES}/keepalived"
    return StaticPod(
        name="keepalived",
        namespace="openshift-kni-infra",
        tag="keepalived-ipfailover",
        command=(
            "/usr/sbin/keepalived",
            "-n",
            "-l",
            "-P",
            "-f",
            f"{config}/keepalived.conf",
            "-p",
            "/tmp/keepalived.pid",
        ),
        labels={"app": "kni-infra-vrrp"},
        secrets="keepalived",
        privileged=True,
    )


def control_plane(
    config: InstallConfig,
    release_image: str,
    node_ip: str,
    member: str,
    *,
    peers: str = "",
    servers: Iterable[str] = (),
) -> list[Stage]:
    """Return a control plane node's static pods, by stages: clients of the API server start when it answers."""
    rest = [
        kube_controller_manager(config),
        kube_scheduler(config),
        machine_config_server(),
        cluster_version_operator(release_image),
        assisted_installer_controller(),
    ]
    return [
        Stage(
            "etcd", [etcd(node_ip, member, peers, alone=config.single_node and not peers, listen=config.any_address)]
        ),
        Stage("kube-apiserver", [kube_apiserver(config, node_ip, servers)]),
        Stage("operators", rest),
    ]


def arbiter(config: InstallConfig, node_ip: str, member: str, peers: str) -> list[Stage]:
    """Return an arbiter's static pod: a member of etcd, and nothing else of the control plane."""
    return [Stage("etcd", [etcd(node_ip, member, peers, listen=config.any_address)])]
