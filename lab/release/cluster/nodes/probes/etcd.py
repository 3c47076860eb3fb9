"""The probe of etcd's members."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.release.cluster.kube.client import Object
from lab.release.cluster.kube.conditions import Finding, find
from lab.release.cluster.nodes.probes.view import View, address, addresses, get

#: The member of the host that the cluster starts from, which leaves by itself.
BOOTSTRAP_MEMBER = "etcd-bootstrap"
#: The condition of etcds/cluster that tells of a member which has to stay although its node is gone.
REMOVAL = "ClusterMemberRemovalControllerDegraded"


@dataclass(frozen=True)
class Answer:
    """A member's own account: the cluster that it belongs to, the member that it is, and all members that it knows."""

    cluster: str
    member: str
    members: list[Object]


def _ask(view: View, node: Object) -> Answer | str:
    """Ask the member of a node; return its answer, or what is wrong with it as a text."""
    cert, ca = (str(view.files / "etcd-client.crt"), str(view.files / "etcd-client.key")), view.files / "etcd-ca.crt"
    url = f"https://{address(node)}:2379"
    # a read that all members agree on: true only with a leader, a majority and no alarm
    status, body = get(f"{url}/health", ca, cert)
    if status != 200 or '"health":"true"' not in body:
        return f"GET :2379/health: {body.strip()[:120]}"
    status, body = get(f"{url}/v3/cluster/member/list", ca, cert, post={})
    if status != 200:
        return f"POST :2379/v3/cluster/member/list: {body.strip()[:120]}"
    listed = json.loads(body)
    return Answer(listed["header"]["cluster_id"], listed["header"]["member_id"], listed["members"])


def disagreements(answers: dict[str, Answer], hosts: set[str]) -> dict[str, str]:
    """Return what is wrong although all of these nodes' members answer, by node or member: one with a cluster of its
    own, a learner, a member that is on none of ``hosts`` (addresses as in URLs)."""
    if not answers:
        return {}
    [(cluster, _)] = Counter(answer.cluster for answer in answers.values()).most_common(1)
    wrong = {}
    for node, answer in answers.items():
        own = next((m for m in answer.members if m["ID"] == answer.member), None)
        if answer.cluster != cluster:
            wrong[node] = f"is in cluster {answer.cluster}, the others in {cluster}"
        elif own is None or own.get("isLearner"):
            wrong[node] = "has no vote"
    known = next(answer.members for answer in answers.values() if answer.cluster == cluster)
    for member in known:
        places = {url.removeprefix("https://").rpartition(":")[0] for url in member.get("peerURLs") or []}
        if member.get("name") != BOOTSTRAP_MEMBER and not places & hosts:
            wrong[f"member {member.get('name') or member['ID']}"] = f"is at no node: {', '.join(sorted(places))}"
    return wrong


def _kept(view: View) -> str:
    """Return the reason why a member whose node is gone had to stay; empty where none had to."""
    conditions = ((view.kube.get("operator.openshift.io/v1", "Etcd", "cluster") or {}).get("status") or {}).get(
        "conditions"
    )
    condition = find(conditions or [], REMOVAL) or {}
    return str(condition.get("message", "")) if condition.get("status") == "True" else ""


def etcd(view: View) -> Finding:
    """Check that every member answers /health with true, votes, and is in one cluster with the others."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(lambda node: _ask(view, node), view.etcd_nodes))
    asked = dict(zip((str(node["metadata"]["name"]) for node in view.etcd_nodes), found, strict=True))
    answers = {name: answer for name, answer in asked.items() if isinstance(answer, Answer)}
    hosts = {f"[{ip}]" if ":" in ip else ip for node in view.etcd_nodes for ip in addresses(node)}
    wrong = {name: answer for name, answer in asked.items() if isinstance(answer, str)} | disagreements(answers, hosts)
    bad = [f"{name}: {text}" for name, text in sorted(wrong.items())]
    if view.missing_members:
        bad.append(f"{view.missing_members} control plane nodes have not joined")
    bad += [f"{name}: pacemaker does not run etcd yet" for name in view.without_pacemaker]
    if bad or not answers:
        text = "; ".join(bad) or "no control plane node yet"
        count = f"{len(answers)} of {len(asked)} members are available"
        text = f"EtcdMembersAvailable: {count}: {text}"
        if kept := _kept(view):
            return Finding(False, f"{REMOVAL}: {kept}; {text}", f"{REMOVAL.removesuffix('Degraded')}_Error", "Degraded")
        return Finding(False, text, "EtcdMembersUnhealthy", "Degraded" if answers else "Available")
    return Finding(True, f"EtcdMembersAvailable: {len(answers)} members are available and vote (GET :2379/health)")
