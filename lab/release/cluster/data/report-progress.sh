#!/bin/bash
# Reports the bootstrap as complete, through the control plane that was bootstrapped.
set -euo pipefail
. /usr/local/bin/api-call.sh
tls=/opt/openshift/tls
api=https://api-int.$domain:6443
ca=/run/report-progress-ca.crt cert=$$tls/admin-kubeconfig-client.crt key=$$tls/admin-kubeconfig-client.key
cat "$$tls"/kube-apiserver-{localhost,service-network,lb}-signer.crt >"$$ca"

bootkube_done() {
    [[ -e /opt/openshift/.bootkube.done ]] || { echo "bootkube.service works on it"; return 1; }
}

control_plane_runs() {
    local answer count
    answer="$$(call GET /apis/operator.openshift.io/v1/kubeapiservers/cluster)" || { echo "no answer"; return 1; }
    count="$$(sed '$$d' <<<"$$answer" | jq '[.status.nodeStatuses[]? | select(.currentRevision > 0)] | length')"
    ((count >= $servers)) || { echo "$$count of $servers nodes have an API server"; return 1; }
}

until_call "the end of bootkube.service" 3 bootkube_done
until_call "enough nodes with an API server" 10 control_plane_runs
until_call "ConfigMap kube-system/bootstrap" 5 bootstrap_complete
