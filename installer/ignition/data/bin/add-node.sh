#!/bin/bash
# Has this host installed, and so added to the cluster, as soon as it is ready and has its role and disk.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env /etc/assisted/add-nodes.env

ISSUE=90-add-node
until infra_env=$(api GET infra-envs | jq -re '.[0].id'); do
    pause 1
done

while :; do
    # One unreadable answer is no reason to give up: the service may be restarting.
    if ! found=$(api GET "infra-envs/$infra_env/hosts" | jq -r '.[0] // {} | [.id, .status, .status_info] | @tsv'); then
        pause 2
        continue
    fi
    IFS=$'\t' read -r id status info <<<"$found"
    every=1
    case "$status" in
        known)
            if ! systemctl is-active --quiet apply-host-config.service; then
                # The role and the disk are not set yet: starting now might write to the wrong disk.
                issue_set $ISSUE "Waiting until this host's role and disk are set."
            elif api POST "infra-envs/$infra_env/hosts/$id/actions/install" --output /dev/null; then
                issue_set $ISSUE "This host is being added to the cluster $CLUSTER_NAME."
                exit 0
            fi
            ;;
        "") issue_set $ISSUE "Waiting for this host to register." ;;
        installing* | preparing* | added*) exit 0 ;;
        *)
            issue_set $ISSUE "Waiting for this host to be ready to join the cluster $CLUSTER_NAME: it is $status. $info"
            every=2
            ;;
    esac
    pause $every
done
