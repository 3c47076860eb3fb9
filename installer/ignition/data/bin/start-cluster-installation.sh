#!/bin/bash
# Starts the installation when exactly the expected number of hosts is ready and configured.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env /usr/local/share/start-cluster/start-cluster.env

ISSUE=90-start-install
expected=$((REQUIRED_MASTER_NODES + REQUIRED_ARBITER_NODES + REQUIRED_WORKER_NODES))

until id=$(api GET clusters | jq -re 'if length == 1 then .[0].id else empty end'); do
    sleep 2
done
infra_env=$(api GET infra-envs | jq -re '.[0].id')

while :; do
    # One unreadable answer is no reason to give up: the service may be restarting.
    if ! status=$(api GET "clusters/$id" | jq -re .status) || ! hosts=$(api GET "infra-envs/$infra_env/hosts"); then
        sleep 2
        continue
    fi
    known=$(jq '[.[] | select(.status == "known")] | length' <<<"$hosts")
    insufficient=$(jq '[.[] | select(.status == "insufficient")] | length' <<<"$hosts")
    registered=$(jq length <<<"$hosts")
    case "$status" in
        ready)
            if [ "$known" -ne "$expected" ]; then
                issue_set $ISSUE "Waiting for hosts: $known of exactly $expected are ready, $registered registered."
            elif ! systemctl is-active --quiet apply-host-config.service; then
                # Roles and disk hints are not all applied yet: starting now might write to the wrong disk.
                issue_set $ISSUE "Waiting until roles and disk hints of all hosts are applied."
            elif api POST "clusters/$id/actions/install" --output /dev/null; then
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
            issue_set $ISSUE "Waiting for hosts: $known of $expected are ready, $insufficient insufficient, $registered registered."
            ;;
        *)
            issue_set $ISSUE "The installation cannot proceed: the cluster is $status."
            ;;
    esac
    sleep 2
done
