"""Nodes that have left, for good or to come back on a new disk: their members of etcd, and the operator's objects for
them (reference/backup.md §2).

A member is removed as soon as its Node is gone, as OpenShift's cluster member removal controller does it, and only
while the rest keeps a majority that answers. A node that is there and has no member any more, after another was
restored, is installed anew.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Collection, Iterable, Sequence

from lab.release.cluster.kube.client import METADATA, Kube, Object
from lab.release.cluster.kube.conditions import Condition, put
from lab.release.cluster.nodes.etcdapi import Etcd, Member
from lab.release.cluster.nodes.probes.etcd import BOOTSTRAP_MEMBER, REMOVAL
from lab.release.cluster.nodes.probes.view import address, addresses
from lab.release.cluster.pods.installerpod import NAMESPACE

log = logging.getLogger(__name__)

#: What the operator makes for one node, before its name; a number at the end is a revision's.
OWN = re.compile(r"(?:node-resources|static-pods|installer-\d+)-(?P<node>.+?)(?:-\d+)?")
WHOLE = re.compile(r"(?:node-resources|static-pods|installer-\d+)-(?P<node>.+)")


def peer_urls(node: Object) -> set[str]:
    """Return the URLs at which a node's member may be."""
    return {f"https://[{ip}]:2380" if ":" in ip else f"https://{ip}:2380" for ip in addresses(node)}


def left(members: Iterable[Member], nodes: Sequence[Object]) -> list[Member]:
    """Return the members that belong to no node, except the bootstrap host's. A node without an address yet is matched
    by its name."""
    places = {url for node in nodes for url in peer_urls(node)}
    coming = {str(node["metadata"]["name"]) for node in nodes if not address(node)}
    return [m for m in members if m.name not in (BOOTSTRAP_MEMBER, *coming) and not places & set(m.peer_urls)]


def refusal(leaver: Member, members: Iterable[Member], answering: Collection[str]) -> str:
    """Return the reason for which a member has to stay: without it, fewer than a majority of voters would answer.
    ``answering`` are members' ids; empty when it may go."""
    if leaver.learner:
        return ""
    # One that has never been started counts for the majority as well.
    rest = [m for m in members if not m.learner and m.id != leaver.id]
    silent = sorted(m.name or m.id for m in rest if m.id not in answering)
    if len(rest) - len(silent) > len(rest) // 2:
        return ""
    why = f"unhealthy voting etcd members found: {', '.join(silent)}" if silent else "it is the last voting member"
    return f"cannot remove member {leaver.name}, whose node is gone: {why}"


def remove(etcd: Etcd, members: list[Member], nodes: Sequence[Object]) -> tuple[list[Member], str]:
    """Remove one member that is at no node; return the members, and the reason why others have to stay. Raises
    EtcdError."""
    leavers = left(members, nodes)
    answering = {m.id for m in members if m.votes and etcd.answers(m)} if leavers else set()
    problems = {m.id: refusal(m, members, answering) for m in leavers}
    # Those that do not answer first: each that goes makes the majority smaller.
    for leaver in sorted(leavers, key=lambda m: m.id in answering):
        if not problems[leaver.id]:
            etcd.remove(leaver)
            log.info("etcd member %s is removed: its node is gone", leaver.name or leaver.id)
            return etcd.members(), ""
    return members, "; ".join(text for text in problems.values() if text)


def put_condition(conditions: list[Condition], refused: str, now: dt.datetime) -> list[Condition]:
    """Return etcds/cluster's conditions with the one on the removal of members."""
    return put(
        conditions,
        REMOVAL,
        "True" if refused else "False",
        now,
        reason="Error" if refused else "AsExpected",
        message=refused,
    )


def is_of_nobody(name: str, nodes: Collection[str]) -> bool:
    """Return whether an object was made for one node, and none of these is it."""
    matches = (pattern.fullmatch(name) for pattern in (OWN, WHOLE))
    owners = {match["node"] for match in matches if match}
    return bool(owners) and not owners & set(nodes)


def tidy(kube: Kube, nodes: Collection[str]) -> None:
    """Delete what the operator has made for nodes that are none of ``nodes``: Secrets, ConfigMaps, installer pods."""
    for kind in ("Pod", "ConfigMap", "Secret"):
        for obj in kube.list("v1", kind, NAMESPACE, accept=METADATA):
            name = str(obj["metadata"]["name"])
            if is_of_nobody(name, nodes) and kube.delete("v1", kind, name, NAMESPACE):
                log.info("%s %s/%s is deleted: its node is gone", kind, NAMESPACE, name)
