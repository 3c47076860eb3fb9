"""Scenarios of an installed cluster's life: quorum lost and won back, a full disk, two that answer for one VIP,
certificates that run out and a night that passes while all nodes are off."""

import time
from contextlib import ExitStack

import pytest

from lab.faults import DiskFull, Duplicate, Outage, Partition, PowerCut
from lab.waiting import wait_until
from scenarios.catalogue.matrix import params
from scenarios.testing.cluster import Installation
from scenarios.testing.health import BACK_SECONDS, all_is_well, console_answers, etcd_is_whole, writes

pytestmark = [pytest.mark.weekly, pytest.mark.disruptive]

SEVERAL = params(lambda row: row.thorough and not row.topology.startswith("sno-"))
ANY = params(lambda row: row.thorough)
# So long nothing may be written without a majority; etcd's election takes a second or two.
WITHOUT_QUORUM_SECONDS = 20
WRITES_SECONDS = 60
NIGHT_SECONDS = 8 * 3600
# How long kubelets' certificates are good for, as the release has it and in short. They are signed as if it had been
# done five minutes before, so that of these eight minutes three are left.
USUAL, SHORT, SHORT_SECONDS = "720h", "480s", 180
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
PKI = "/var/lib/kubelet/pki"


def majority(installation: Installation) -> tuple[str, ...]:
    """Just so many voting members of etcd that the rest has no quorum."""
    members = [*installation.topology.masters, *installation.topology.arbiters]
    return tuple(spec.name for spec in members[: (len(members) + 1) // 2])


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_quorum_is_lost_and_won_back(installation: Installation) -> None:
    """With a majority off nothing is written; with it on again all is as before, without anybody's help."""
    boots = installation.ready_boots()
    lost = majority(installation)
    with installation.lab.phase(f"no quorum without {', '.join(lost)}"):
        for name in lost:
            installation.lab.nodes[name].power.off()
        end = time.monotonic() + WITHOUT_QUORUM_SECONDS
        wait_until(lambda: not writes(installation), WITHOUT_QUORUM_SECONDS, "writes to fail without a majority")
        while time.monotonic() < end:
            assert not writes(installation), "something was written without a majority of etcd's members"
    for name in lost:
        installation.lab.nodes[name].power.on()
    all_is_well(installation, boots, set(lost))
    assert installation.write()


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_two_halves_do_not_both_serve(installation: Installation) -> None:
    """A control plane node that is cut off holds on to no virtual IP: writes succeed with the others, and with all when
    it is back."""
    vip = installation.topology.api_vip
    assert vip is not None
    holder = installation.holder(vip, 6443)
    with installation.lab.fault(Partition((holder,))):
        wait_until(lambda: writes(installation), WRITES_SECONDS, f"a write without {holder}, which held the API's VIP")
        assert installation.holder(vip, 6443) != holder
    wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
    wait_until(lambda: writes(installation), WRITES_SECONDS, "a write with all of them")


@pytest.mark.parametrize("installation", SEVERAL, indirect=True)
def test_a_stranger_that_takes_the_api_vip_for_a_while_leaves_no_harm(installation: Installation) -> None:
    vip = installation.topology.api_vip
    assert vip is not None
    with installation.lab.fault(Duplicate(vip)):
        # Whoever asks from the lab's own host asks the stranger now.
        wait_until(lambda: not writes(installation), WRITES_SECONDS, "the stranger to be asked in the VIP's place")
    wait_until(lambda: writes(installation), WRITES_SECONDS, "the cluster to answer at its VIP again")
    assert etcd_is_whole(installation)


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_a_disk_that_was_full_for_a_while_leaves_no_harm(installation: Installation) -> None:
    """The kubelet may evict pods, and etcd may refuse; with room again all comes back by itself."""
    node = installation.topology.masters[-1].name
    with installation.lab.fault(DiskFull(node, "/var", 16)):
        host = installation.lab.nodes[node].ssh()
        assert host.run("sudo sh -c 'head -c 64M /dev/zero > /var/one-more'").rc != 0, "the disk is not full"
        host.run("sudo rm -f /var/one-more")
    wait_until(installation.nodes_ready, BACK_SECONDS, "all nodes to be Ready again")
    wait_until(
        lambda: installation.unwell_operators() == [],
        BACK_SECONDS,
        "all operators to be well again",
        installation.unwell_operators,
    )
    wait_until(lambda: writes(installation), WRITES_SECONDS, "a write after the disk has room again")
    wait_until(lambda: console_answers(installation), WRITES_SECONDS, "the console to answer")


def as_root(installation: Installation, node: str, script: str) -> str:
    """Return the output of a script on a node; its failure fails the test."""
    done = installation.lab.nodes[node].ssh().run(f"sudo sh -ec '{script}'")
    assert done.rc == 0, f"{node}: {script}: {done.stderr}"
    return str(done.stdout)


def sign_for(installation: Installation, duration: str) -> None:
    """Have the controller managers sign the nodes' certificates for so long from now on."""
    folder, flag = "/etc/kubernetes", "cluster-signing-duration"
    for spec in installation.topology.masters:
        change = f"sed s/{flag}=[0-9hms]*/{flag}={duration}/ $file > {folder}/changed; mv {folder}/changed $file"
        as_root(installation, spec.name, f"file=$(grep -l {flag} {folder}/manifests/*); {change}")

    def all_do() -> bool:
        pods = installation.pods("openshift-kube-controller-manager", "kube-controller-manager")
        return len(pods) == len(installation.topology.masters) and all(
            f"--{flag}={duration}" in str(pod["spec"]["containers"])
            and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
            for pod in pods.values()
        )

    wait_until(all_do, BACK_SECONDS, f"all controller managers to sign for {duration}")


def asked(installation: Installation) -> list[str]:
    """Return the requests for certificates by which kubelets that have none want to be let in."""
    return [
        request["metadata"]["name"]
        for request in installation.kubectl_json("get", "certificatesigningrequests")["items"]
        if request["spec"]["signerName"] == CLIENT_SIGNER and not request["status"].get("conditions")
    ]


def approve(installation: Installation) -> None:
    """Approve requests as an administrator does."""
    if names := asked(installation):
        installation.kubectl("certificate", "approve", *names)


def have_short_ones(installation: Installation) -> bool:
    """Return whether all kubelets have certificates that soon run out, approving those who ask."""
    approve(installation)
    last = f"openssl x509 -noout -checkend {2 * SHORT_SECONDS} -in"
    return all(
        "will expire" in as_root(installation, name, f"{last} {PKI}/kubelet-{kind}-current.pem || true")
        for name in installation.lab.nodes
        for kind in ("client", "server")
    )


@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_certificates_that_ran_out_while_all_was_off_are_asked_for_and_given(installation: Installation) -> None:
    """As after a month without power: kubelets come up with certificates that are good no more. The cluster says that
    they ask, lets nobody in by itself who has joined before, and is whole once the administrator does."""
    boots, lab = installation.ready_boots(), installation.lab
    sign_for(installation, SHORT)
    try:
        for name in lab.nodes:
            without = f"systemctl stop kubelet; rm -f {PKI}/kubelet-client-* {PKI}/kubelet-server-*"
            as_root(installation, name, f"{without} /var/lib/kubelet/kubeconfig; systemctl start kubelet")
        wait_until(lambda: have_short_ones(installation), BACK_SECONDS, "short certificates")
        with ExitStack() as off:
            for name in lab.nodes:
                off.enter_context(lab.fault(PowerCut(name)))
            end = time.monotonic() + SHORT_SECONDS
            wait_until(lambda: time.monotonic() > end, 2 * SHORT_SECONDS, "the last certificate to run out")
        wait_until(installation.api_ready, BACK_SECONDS, "the API, which needs no kubelet's certificate")
        wait_until(lambda: len(asked(installation)) >= len(lab.nodes), BACK_SECONDS, "all kubelets to ask")
        wait_until(
            lambda: "machine-approver" in installation.unavailable_operators(),
            BACK_SECONDS,
            "the cluster to say that kubelets ask",
            installation.unavailable_operators,
        )
        assert len(asked(installation)) >= len(lab.nodes), "who has joined before is let in by nobody"
        approve(installation)
        all_is_well(installation, boots, set(boots))
        assert installation.write()
    finally:
        sign_for(installation, USUAL)


@pytest.mark.vm("a container's clock is the host's")
@pytest.mark.parametrize("installation", ANY, indirect=True)
def test_all_nodes_are_off_for_a_night(installation: Installation) -> None:
    boots, lab = installation.ready_boots(), installation.lab
    # There is no time source that would set the clocks back.
    with lab.fault(Outage("chronyd")):
        with ExitStack() as off:
            for name in lab.nodes:
                off.enter_context(lab.fault(PowerCut(name, NIGHT_SECONDS)))
        all_is_well(installation, boots, set(boots))
        for name in lab.nodes:
            ahead = int(as_root(installation, name, "date +%s")) - time.time()
            assert abs(ahead - NIGHT_SECONDS) < WRITES_SECONDS, f"{name}: its clock is {ahead:.0f} s ahead"
        assert installation.write()
