#!/bin/bash
# Starts the installation when exactly the expected number of hosts is ready.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env /usr/local/share/start-cluster/start-cluster.env

ISSUE=90-start-install
expected=$((REQUIRED_MASTER_NODES + REQUIRED_ARBITER_NODES + REQUIRED_WORKER_NODES))

until id=$(api GET clusters | jq -re 'if length == 1 then .[0].id else empty end'); do
    sleep 2
done
infra_env=$(api GET infra-envs | jq -r '.[0].id')

while :; do
    status=$(api GET "clusters/$id" | jq -r .status) || { sleep 2; continue; }
    case "$status" in
        ready)
            if api POST "clusters/$id/actions/install" --output /dev/null; then
                issue_set $ISSUE "Installation of the cluster has been started."
            fi
            ;;
        preparing-for-installation | installing | finalizing)
            issue_set $ISSUE "The cluster is being installed: $status."
            ;;
        installed)
            issue_set $ISSUE "The cluster is installed."
            exit 0
            ;;
        insufficient | pending-for-input)
            hosts=$(api GET "infra-envs/$infra_env/hosts" || echo '[]')
            known=$(jq '[.[] | select(.status == "known")] | length' <<<"$hosts")
            registered=$(jq length <<<"$hosts")
            issue_set $ISSUE "Waiting for hosts: $known of $expected are ready, $registered registered."
            ;;
        *)
            issue_set $ISSUE "The installation cannot proceed: the cluster is $status."
            ;;
    esac
    sleep 2
done
