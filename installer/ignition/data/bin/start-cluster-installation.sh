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

# How the hosts stand, in one call: ready, insufficient, registered.
count_hosts() {
    api GET "infra-envs/$infra_env/hosts" | jq -r '
        [([.[] | select(.status == "known")] | length), ([.[] | select(.status == "insufficient")] | length), length] | @tsv'
}

while :; do
    # One unreadable answer is no reason to give up: the service may be restarting.
    if ! status=$(api GET "clusters/$id?exclude-hosts=true" | jq -re .status); then
        sleep 2
        continue
    fi
    every=4 # a look costs an emulated processor a second or two
    case "$status" in
        ready)
            every=2
            read -r known insufficient registered < <(count_hosts) || { sleep 2; continue; }
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
            every=60 # only told, no longer acted upon: the processor has better things to do
            ;;
        installed)
            issue_set $ISSUE "The cluster is installed."
            exit 0
            ;;
        insufficient | pending-for-input)
            read -r known insufficient registered < <(count_hosts) || { sleep 2; continue; }
            issue_set $ISSUE "Waiting for hosts: $known of $expected are ready, $insufficient insufficient, $registered registered."
            ;;
        *)
            issue_set $ISSUE "The installation cannot proceed: the cluster is $status."
            every=10
            ;;
    esac
    sleep $every
done
