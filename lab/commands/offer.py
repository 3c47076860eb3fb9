"""`node0-lab offer`: releases that a lab's cluster can be upgraded to."""

from __future__ import annotations

import argparse
import json
import subprocess

from lab import updates
from lab.commands import access
from lab.errors import LabError
from lab.host import records
from lab.host.namespaces import enter_argv
from lab.layout import Layout

EPILOG = """\
Signs the releases, applies the signatures to the cluster, and makes it ask the lab's update service for updates:

  node0-lab offer $(.venv/bin/python -m lab.release build --variant next)
  node0-lab kubectl get clusterversion version -o jsonpath='{.status.availableUpdates}'
  node0-lab kubectl patch clusterversion version --type merge -p '{"spec":{"desiredUpdate":{"version":"..."}}}'

docs/upgrades.md tells what follows.
"""
SECONDS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "pullspecs", nargs="+", metavar="PULLSPEC", help="a release that was built on this machine, by digest"
    )
    parser.add_argument("--unsigned", action="store_true", help="without signatures: the cluster will refuse them")


def run(arguments: argparse.Namespace, record: records.Record) -> int:
    """Run it in a lab. Raises LabError."""
    config = access.kubeconfig_of(record.root)

    def kubectl(*words: str, text: str = "") -> str:
        argv = enter_argv(record.init, ["kubectl", f"--kubeconfig={config}", *words])
        try:
            done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise LabError(f"kubectl {words[0]}: no answer in {SECONDS} s") from error
        if done.returncode != 0:
            raise LabError(f"kubectl {words[0]}: {done.stderr.strip()}")
        return done.stdout

    offered = [(release.version, release.pullspec) for release in map(updates.built, arguments.pullspecs)]
    history = json.loads(kubectl("get", "clusterversion", "version", "-o", "json"))["status"]["history"]
    known = {entry["image"]: (entry["version"], entry["image"]) for entry in reversed(history)}
    releases = [*known.values(), *(pair for pair in offered if pair[1] not in known)]
    if not arguments.unsigned:
        kubectl("apply", "-f", "-", text=updates.signatures([image for _, image in releases]))
    url = updates.publish(Layout(record.root, record.topology), releases)
    kubectl("patch", "clusterversion", "version", "--type=merge", "-p", json.dumps({"spec": {"upstream": url}}))
    for version, image in offered:
        print(f"{version} {image}")
    return 0
