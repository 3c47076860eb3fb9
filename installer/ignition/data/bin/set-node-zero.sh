#!/bin/bash
# Finds out whether this host is node0: the one that has the rendezvous IP.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env

DEADLINE=60 # seconds: a NIC may still be waiting for its link

owner() { # the MAC address of the interface that has the rendezvous IP
    ip -json address | jq -r --arg ip "$NODE_ZERO_IP" \
        '.[] | select(any(.addr_info[]?; .local == $ip)) | .address' | head -n 1
}

own() { # its addresses, which another DHCP server may have given it; the text stays when one comes later
    ip -json address | jq -r '[.[].addr_info[]? | select(.scope == "global").local] |
        if . == [] then "no address in time" else join(", ") end'
}

uptime_now
started=$UPTIME
until mac=$(owner) && [ -n "$mac" ]; do
    uptime_now
    if [ $((UPTIME - started)) -ge "$DEADLINE" ]; then
        issue_set 60-rendezvous-host "This host ($(hostname), $(own)) is not the rendezvous host. The rendezvous host is at $NODE_ZERO_IP."
        exit 0
    fi
    sleep 0.5
done

printf 'BOOTSTRAP_HOST_MAC=%s\n' "$mac" >/etc/assisted/node0
# Each host that is added to a cluster has a service of its own.
[ "${WORKFLOW_TYPE-}" != addnodes ] || exit 0
issue_set 60-rendezvous-host "This host ($(hostname)) is the rendezvous host (node0), $NODE_ZERO_IP on $mac."
