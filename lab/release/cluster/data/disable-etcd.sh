#!/bin/bash
# Stops this node's member of etcd for good (reference/backup.md §1): before another node is restored.
set -o errexit -o pipefail -o nounset
[[ $EUID -eq 0 ]] || { echo "This script must be run as root" >&2; exit 1; }
source /usr/local/bin/etcd-common-tools
find_etcd_pod
stop_etcd
