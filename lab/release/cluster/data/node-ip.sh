#!/bin/bash
# Writes KUBELET_NODE_IP and NODE_INTERFACE to the file $$1: the address from which this host speaks to the machine
# network, and the interface that has it. Fills the interface into keepalived's configuration, where there is one.
set -euo pipefail
source=$$(ip -j route get "$machine_address" | jq -er '.[0].prefsrc')
if [[ -z $$source || $$source == 127.* || $$source == ::1 ]]; then
    # The probed address is our own: it is the answer itself.
    source="$machine_address"
fi
interface=$$(ip -j address | jq -er --arg ip "$$source" '[.[] | select(any(.addr_info[]; .local == $$ip))][0].ifname')
printf 'KUBELET_NODE_IP=%s\nNODE_INTERFACE=%s\n' "$$source" "$$interface" >"$$1"
keepalived=/etc/kubernetes/static-pod-resources/keepalived/keepalived.conf
if [[ -e $$keepalived.tmpl ]]; then
    sed "s/@INTERFACE@/$$interface/g" "$$keepalived.tmpl" >"$$keepalived"
fi
