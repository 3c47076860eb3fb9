#!/bin/bash
# Writes KUBELET_NODE_IP, KUBELET_NODE_IPS and NODE_INTERFACE to the file $$1: the addresses from which this host speaks to
# the machine networks, one a family, and the interface that has the first. Fills the interface into keepalived's
# configuration, where there is one.
set -euo pipefail
addresses=()
# Where the probed address is this host's own, it is the answer itself.
own='.[0] | if .type == "local" then .dst else .prefsrc end'
for probe in $machine_addresses; do
    # network-online.target waits for one family only; until there is an address of the other, the link's or the loopback's
    # would be the source.
    until source=$$(ip -j route get "$$probe" 2>/dev/null | jq -er "$$own") && [[ $$source != fe80:* && $$source != ::1 ]]; do
        if ((SECONDS >= $wait_seconds)); then
            echo "No address from which $$probe can be reached within $wait_seconds s: $$(ip -br address | tr '\n' ';')" >&2
            exit 1
        fi
        sleep 1
    done
    addresses+=("$$source")
done
interface=$$(ip -j address | jq -er --arg ip "$${addresses[0]}" '[.[] | select(any(.addr_info[]; .local == $$ip))][0].ifname')
all=$$(IFS=,; echo "$${addresses[*]}")
printf 'KUBELET_NODE_IP=%s\nKUBELET_NODE_IPS=%s\nNODE_INTERFACE=%s\n' "$${addresses[0]}" "$$all" "$$interface" >"$$1"
keepalived=/etc/kubernetes/static-pod-resources/keepalived/keepalived.conf
if [[ -e $$keepalived.tmpl ]]; then
    sed "s/@INTERFACE@/$$interface/g" "$$keepalived.tmpl" >"$$keepalived"
fi
