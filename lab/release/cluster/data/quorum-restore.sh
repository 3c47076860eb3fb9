#!/bin/bash
# Makes this node's etcd a cluster of one with the content that it has (reference/backup.md §1), when a majority of the
# members is lost for good.
set -o errexit -o pipefail -o nounset
umask 077
[[ $EUID -eq 0 ]] || { echo "This script must be run as root" >&2; exit 1; }
source /usr/local/bin/etcd-common-tools
find_etcd_pod
[[ -d $ETCD_DATA_DIR/member ]] || fail "$ETCD_DATA_DIR has no member of etcd"
dl_etcdctl
stop_etcd
beyond "$ETCD_DATA_DIR" "$(revision_of "$ETCD_DATA_DIR/member/snap/db")" --force-new-cluster
echo "starting etcd-pod.yaml"
start_etcd
