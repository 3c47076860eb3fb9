"""Backup and restore by the scripts of a control plane node, with a real etcd in namespaces of its own; a loop in the
kubelet's place starts and stops the static pod."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from installer.common.certificates import authority
from installer.common.secretfiles import write_private
from lab.release.cluster import templates
from lab.release.cluster.ignition.machineconfig import RESCUE
from lab.release.cluster.kube.payload import Images
from lab.release.cluster.pods import assets, staticpods

pytestmark = pytest.mark.slow

KUBELET = """
import pathlib, subprocess, sys, time, yaml
place, process = pathlib.Path("/etc/kubernetes/manifests/etcd-pod.yaml"), None
while True:
    wanted = place.exists()
    if process is None and wanted:
        command = yaml.safe_load(place.read_text())["spec"]["containers"][0]["command"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    elif process is not None and not wanted:
        process.terminate()
        process.wait()
        process = None
    time.sleep(0.1)
"""
CTR = """#!/bin/sh
case "$4" in
    mount) mkdir -p "$6/usr/bin"; cp /usr/bin/etcd /usr/bin/etcdctl "$6/usr/bin/" ;;
    unmount) rm -rf "$6" ;;
esac
"""
CERTS = "/etc/kubernetes/static-pod-resources/etcd-certs"
PRELUDE = f"""
set -euo pipefail
ip link set lo up
mount -t overlay none -o "lowerdir=/etc,upperdir=$ROOT/etc,workdir=$ROOT/work" /etc
for place in /var/lib /home /usr/local/bin; do mount --bind "$ROOT$place" "$place"; done
"$PYTHON" -c "$KUBELET" &
export ETCDCTL_API=3
e() {{ etcdctl --endpoints https://localhost:2379 --cacert {CERTS}/ca.crt --cert {CERTS}/server.crt \\
    --key {CERTS}/server.key "$@"; }}
ready() {{ for i in $(seq 300); do ! e endpoint health >/dev/null 2>&1 || return 0; sleep 0.1; done; return 1; }}
revision() {{ e get a --write-out=json | jq .header.revision; }}
ready
"""


@pytest.fixture
def node(tmp_path):
    """Return a function that runs bash on a node with one member of etcd, whose key `a` can be written."""
    assert shutil.which("etcd"), "etcd is missing: run ci/setup"
    if os.geteuid() != 0:
        pytest.skip("namespaces of its own need root")
    root = tmp_path / "root"
    for place in ("etc/kubernetes/manifests", "var/lib/etcd", "home", "usr/local/bin", "work"):
        (root / place).mkdir(parents=True)
    (root / "var/lib/etcd").chmod(0o700)
    signer = authority("etcd-signer")
    resources = root / "etc/kubernetes/static-pod-resources"
    for path, text in assets.etcd_files(signer, "m0", ["127.0.0.1"]).items():
        write_private(resources / path, text)
    write_private(resources / "etcd-certs/ca.crt", signer.certificate)
    write_private(resources / "kube-apiserver-certs/service-account.key", "as it was")
    manifest = staticpods.etcd("127.0.0.1", "m0", alone=True).manifest(Images("4", {"etcd": "r.example/etcd@sha256:1"}))
    write_private(root / "etc/kubernetes/manifests/etcd-pod.yaml", manifest)
    for name, text in {**{name: templates.text(name) for name in RESCUE}, "ctr": CTR}.items():
        (root / "usr/local/bin" / name).write_text(text)
        (root / "usr/local/bin" / name).chmod(0o755)

    def run(script: str) -> dict[str, object]:
        environment = {**os.environ, "ROOT": str(root), "PYTHON": sys.executable, "KUBELET": KUBELET}
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "bash", "-c", PRELUDE + script]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        shown: dict[str, object] = json.loads(result.stdout.splitlines()[-1])
        return shown

    return run


def test_a_restored_cluster_is_as_it_was_and_no_watch_waits_for_what_will_not_come(node):
    seen = node("""
e put a 1; cluster-backup.sh /home/backup
e put a 2; for i in $(seq 40); do e put b $i; done
echo changed >/etc/kubernetes/static-pod-resources/kube-apiserver-certs/service-account.key
echo own >>/etc/kubernetes/static-pod-resources/etcd-certs/server.crt
before=$(revision)
spy() { for i in $(seq 2000); do setpriv --reuid 65534 --clear-groups curl --silent --insecure --max-time 1 \
    --data '{"key":"YQ=="}' "$1://127.0.0.1:2399/v3/kv/range" || true; sleep 0.01; done >>/home/spied-$1; }
spy http & spy https &
http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 cluster-restore.sh /home/backup
kill %2 %3
later=$(e watch a --rev=$before 2>&1 & sleep 2; kill $! 2>/dev/null || true)
key=$(cat /etc/kubernetes/static-pod-resources/*/service-account.key)
jq -cn --arg a "$(e get a --print-value-only)" --arg b "$(e get b --print-value-only)" --arg watch "$later" \
    --argjson gone "$(( $(revision) - before ))" --arg key "$key" \
    --argjson members "$(e member list --write-out=json | jq -c '[.members[].name]')" \
    --arg spied "$(cat /home/spied-* | grep -a kvs)" \
    --arg own "$(tail -1 /etc/kubernetes/static-pod-resources/etcd-certs/server.crt)" \
    '{$a, $b, $watch, $gone, $key, $members, $spied, $own}'
""")
    assert (seen["a"], seen["b"], seen["key"], seen["members"]) == ("1", "", "as it was", ["m0"])
    assert seen["own"] == "own", "the node's own certificate stays"
    assert "compacted" in str(seen["watch"])
    assert not seen["spied"], "somebody without a certificate has read from the prepared member"
    assert int(str(seen["gone"])) > 500


def test_what_cannot_be_restored_leaves_etcd_as_it_is(node):
    seen = node("""
e put a 1; cluster-backup.sh /home/backup; e put a 2
started=$(pgrep -x etcd)
refused() { if "$@" >/home/out 2>&1; then echo 0; else tail -1 /home/out; fi; }
nothing=$(refused cluster-restore.sh /home)
mkdir /home/other; cp /home/backup/snapshot*.db /home/other
tar -C /home -czf /home/other/static_kuberesources_1.tar.gz out
other=$(refused cluster-restore.sh /home/other)
truncate --size=-4096 /home/backup/snapshot*.db
damaged=$(refused cluster-restore.sh /home/backup)
# A directory in the snapshot's place: it cannot be saved.
printf '#!/bin/sh\\necho now\\n' >/usr/local/bin/date; chmod +x /usr/local/bin/date
mkdir -p /home/partial/snapshot_now.db
refused cluster-backup.sh /home/partial >/dev/null
file=$(refused cluster-backup.sh /home/out)
jq -cn --arg nothing "$nothing" --arg damaged "$damaged" --arg file "$file" --arg a "$(e get a --print-value-only)" \
    --arg same "$([[ $started == "$(pgrep -x etcd)" ]] && echo yes)" --arg left "$(ls -d /var/lib/etcd-restore* 2>&1)" \
    --arg other "$other" --arg partial "$(ls /home/partial)" \
    '{$nothing, $damaged, $file, $a, $same, $left, $other, $partial}'
""")
    assert (seen["a"], seen["same"]) == ("2", "yes")
    assert "does not exist" in str(seen["nothing"])
    assert "nothing has been changed" in str(seen["damaged"])
    assert "static_kuberesources_1.tar.gz cannot be restored; nothing has been changed" in str(seen["other"])
    assert seen["partial"] == "snapshot_now.db", "half a backup is left"
    assert "Path to backup dir required" in str(seen["file"])
    assert "No such file" in str(seen["left"])


def test_a_quorum_that_is_lost_for_good_is_won_back_with_all_that_the_survivor_has(node):
    seen = node("""
e put a 1
e member add m1 --peer-urls=https://127.0.0.2:2380 >/dev/null
lost=$(e --command-timeout=2s put a 2 2>&1 || true)
quorum-restore.sh
e put c 3
jq -cn --arg lost "$lost" --arg a "$(e get a --print-value-only)" --arg c "$(e get c --print-value-only)" \
    --argjson members "$(e member list --write-out=json | jq -c '[.members[].name]')" '{$lost, $a, $c, $members}'
""")
    assert "timed out" in str(seen["lost"]) or "deadline" in str(seen["lost"])
    assert (seen["a"], seen["c"], seen["members"]) == ("1", "3", ["m0"])
