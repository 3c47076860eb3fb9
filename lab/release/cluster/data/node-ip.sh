#!/bin/bash
# Writes KUBELET_NODE_IP, KUBELET_NODE_IPS and NODE_INTERFACE to the file $$1: the addresses from which this host speaks to
# the machine networks, one a family, and the interface that has the first. Fills the interface into keepalived's
# configuration, where there is one.
set -euo pipefail
addresses=()
for probe in $machine_addresses; do
    source=$$(ip -j route get "$$probe" | jq -er '.[0].prefsrc')
    if [[ -z $$source || $$source == 127.* || $$source == ::1 ]]; then
        # The probed address is our own: it is the answer itself.
        source="$$probe"
    fi
    addresses+=("$$source")
done
interface=$$(ip -j address | jq -er --arg ip "$${addresses[0]}" '[.[] | select(any(.addr_info[]; .local == $$ip))][0].ifname')
all=$$(IFS=,; echo "$${addresses[*]}")
printf 'KUBELET_NODE_IP=%s\nKUBELET_NODE_IPS=%s\nNODE_INTERFACE=%s\n' "$${addresses[0]}" "$$all" "$$interface" >"$$1"
keepalived=/etc/kubernetes/static-pod-resources/keepalived/keepalived.conf
if [[ -e $$keepalived.tmpl ]]; then
    sed "s/@INTERFACE@/$$interface/g" "$$keepalived.tmpl" >"$$keepalived"
fi
