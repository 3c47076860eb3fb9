#!/bin/bash
# Writes KUBELET_NODE_IP=<address> to the file $$1: the address from which this host speaks to the machine network.
set -euo pipefail
source=$$(ip -j route get "$machine_address" | jq -er '.[0].prefsrc')
if [[ -z $$source || $$source == 127.* || $$source == ::1 ]]; then
    # The probed address is our own: it is the answer itself.
    source="$machine_address"
fi
echo "KUBELET_NODE_IP=$$source" >"$$1"
