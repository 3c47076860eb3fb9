#!/bin/bash
# Makes this node's etcd a cluster of one with the content of a backup (reference/backup.md §1): cluster-restore.sh DIR
# Until both files have been read whole, nothing of the node is changed; its data stay in place until the restored ones
# are ready.
set -o errexit -o pipefail -o nounset
umask 077
[[ $EUID -eq 0 ]] || { echo "This script must be run as root" >&2; exit 1; }
if [[ -z ${1-} || ! -d $1 ]]; then
    echo "Path to the directory containing backup files is required: ./cluster-restore.sh <path-to-backup>
The backup directory is expected to be contain two files:
        1. etcd snapshot
        2. A copy of the Static POD resources at the time of backup" >&2
    exit 1
fi
source /usr/local/bin/etcd-common-tools
find_etcd_pod
newest() {
    find "$1" -maxdepth 1 -name "$2" | sort --version-sort | tail -1
}
BACKUP_FILE=$(newest "$1" 'static_kuberesources*.tar.gz')
SNAPSHOT_FILE=$(newest "$1" 'snapshot*.db')
[[ -n $SNAPSHOT_FILE ]] || fail "etcd snapshot $1/snapshot*.db does not exist"
[[ -n $BACKUP_FILE ]] || fail "static pod resources $1/static_kuberesources*.tar.gz do not exist"
dl_etcdctl
NEW=$(mktemp -d /var/lib/etcd-restore.XXXXXX)
# A certificate of another node's, and its interface, are not this one's.
tar -C "$NEW" --exclude='*/server.crt' --exclude='*/server.key' --exclude='*/keepalived' -xzpf "$BACKUP_FILE" \
    static-pod-resources || fail "$BACKUP_FILE cannot be restored; nothing has been changed"
PEER=$(etcd_flag initial-advertise-peer-urls)
NAME=$(etcd_flag name)
etcdctl snapshot restore "$SNAPSHOT_FILE" --name "$NAME" --initial-cluster "$NAME=$PEER" \
    --initial-cluster-token "openshift-etcd-$(cat /proc/sys/kernel/random/uuid)" \
    --initial-advertise-peer-urls "$PEER" --data-dir "$NEW/data" ||
    fail "$SNAPSHOT_FILE cannot be restored; nothing has been changed"
stop_etcd
# Without a member, a restore before this has ended after it had put it aside.
LAST=$ETCD_DATA_DIR
[[ -d $LAST/member ]] || LAST=$ETCD_DATA_DIR_BACKUP
beyond "$NEW/data" "$(revision_of "$LAST/member/snap/db")"
mkdir -p "$ETCD_DATA_DIR_BACKUP"
if [[ -d $ETCD_DATA_DIR/member ]]; then
    echo "Moving etcd data-dir $ETCD_DATA_DIR/member to $ETCD_DATA_DIR_BACKUP"
    rm -rf "$ETCD_DATA_DIR_BACKUP/member"
    mv "$ETCD_DATA_DIR/member" "$ETCD_DATA_DIR_BACKUP/"
fi
mv "$NEW/data/member" "$ETCD_DATA_DIR/"
cp -a --remove-destination "$NEW/static-pod-resources" "$CONFIG_FILE_DIR/"
echo "starting etcd-pod.yaml"
start_etcd
