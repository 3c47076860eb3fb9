"""Health of a cluster that has been through something."""

from __future__ import annotations

import json
from typing import Any

from lab.waiting import wait_until
from scenarios.testing.cluster import Installation

#: Seconds in which all must be as before once every node has power again.
BACK_SECONDS = 900


def etcdctl(installation: Installation, *words: str) -> Any:
    """etcdctl's JSON output, run in a member's pod with that member's certificate."""
    pod = next(iter(installation.pods("openshift-etcd", "etcd").values()))
    container = next(c for c in pod["spec"]["containers"] if c["name"] == "etcd")
    flags = dict(w.split("=", 1) for w in [*container.get("command", []), *container.get("args", [])] if "=" in w)
    tls = {"cacert": "--trusted-ca-file", "cert": "--peer-cert-file", "key": "--peer-key-file"}
    options = [f"--{name}={flags[flag]}" for name, flag in tls.items()]
    options += [f"--endpoints={flags['--advertise-client-urls']}", "--write-out=json"]
    target = ["-n", "openshift-etcd", "exec", pod["metadata"]["name"], "-c", "etcd"]
    return json.loads(installation.kubectl(*target, "--", "etcdctl", *options, *words))


def etcd_is_whole(installation: Installation) -> bool:
    """etcd has one started, voting member per master and arbiter; all answer and follow one leader."""
    members = etcdctl(installation, "member", "list")["members"]
    voting = [m for m in members if m.get("name") and not m.get("isLearner")]
    statuses = [entry["Status"] for entry in etcdctl(installation, "endpoint", "status", "--cluster")]
    expected_members = len(installation.topology.masters) + len(installation.topology.arbiters)
    return (
        len(voting) == len(members) == len(statuses) == expected_members
        and len({s.get("leader", 0) for s in statuses}) == 1
        and statuses[0].get("leader", 0) != 0
    )


def console_answers(installation: Installation) -> bool:
    """Return whether the console answers through the ingress VIP, without a retry."""
    return installation.get(installation.deployment.console_url, timeout=5)[0] == 200


def console_is_served(installation: Installation) -> bool:
    """Return whether the console's Service leads to all of its pods where they are now: the controller manager that
    sees to it may have been on the node that was lost, and its lease is 60 s."""
    listed = installation.kubectl_json("-n", "openshift-console", "get", "pods", "-l", "app=console")["items"]
    # A kubelet that starts before it knows its node's labels fails a pod (NodeAffinity), which stays listed for good.
    alive = [p for p in listed if p["status"]["phase"] != "Failed" and "deletionTimestamp" not in p["metadata"]]
    served = installation.kubectl_json("-n", "openshift-console", "get", "endpoints", "console").get("subsets") or []
    addresses = {address["ip"] for subset in served for address in subset.get("addresses") or []}
    return bool(alive) and addresses == {pod["status"].get("podIP") for pod in alive}


def writes(installation: Installation) -> bool:
    """Return whether a write through the API succeeds; a refusal or a time-out is none."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return installation.write()
    except (ApiException, HTTPError, OSError):
        return False


def all_is_well(installation: Installation, boots_before: dict[str, str], rebooted: set[str]) -> None:
    """Wait until nodes that lost their power are Ready in a new boot, etcd is whole and all operators available."""

    def back() -> bool:
        boots = installation.ready_boots()
        return set(boots) == set(boots_before) and all(boots[name] != boots_before[name] for name in rebooted)

    with installation.lab.phase(f"{', '.join(sorted(rebooted))} back"):
        wait_until(back, BACK_SECONDS, f"{rebooted} to be Ready again", installation.ready_boots)
        wait_until(lambda: etcd_is_whole(installation), BACK_SECONDS, "etcd to be whole again")
        wait_until(
            lambda: installation.unwell_operators() == [],
            BACK_SECONDS,
            "all operators to be well again",
            installation.unwell_operators,
        )
        wait_until(lambda: console_is_served(installation), BACK_SECONDS, "all of the console's pods to be served")
