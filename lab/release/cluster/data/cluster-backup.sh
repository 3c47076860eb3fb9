#!/bin/bash
# Saves etcd's content and the static pods' files (reference/backup.md §1): cluster-backup.sh DIR
set -o errexit -o pipefail -o nounset
umask 077
[[ $EUID -eq 0 ]] || { echo "This script must be run as root" >&2; exit 1; }
if [[ -z ${1-} || -f $1 ]]; then
    echo "Path to backup dir required: ./cluster-backup.sh <path-to-backup-dir>" >&2
    exit 1
fi
source /usr/local/bin/etcd-common-tools
find_etcd_pod
BACKUP_DIR=$1
DATESTRING=$(date "+%F_%H%M%S")
BACKUP_TAR_FILE=$BACKUP_DIR/static_kuberesources_$DATESTRING.tar.gz
SNAPSHOT_FILE=$BACKUP_DIR/snapshot_$DATESTRING.db
# A trap of ERR would not see what fails within a function.
trap 'rm -f "$BACKUP_TAR_FILE" "$SNAPSHOT_FILE" "$SNAPSHOT_FILE.part"' EXIT
mkdir -p "$BACKUP_DIR"
dl_etcdctl
member_etcdctl endpoint health || fail "etcd on this node does not answer"
tar -C "$CONFIG_FILE_DIR" --exclude=static-pod-resources/bin -czpf "$BACKUP_TAR_FILE" static-pod-resources
member_etcdctl snapshot save "$SNAPSHOT_FILE"
etcdctl snapshot status "$SNAPSHOT_FILE" --write-out=json
trap - EXIT
echo "snapshot db and kube resources are successfully saved to $BACKUP_DIR"
