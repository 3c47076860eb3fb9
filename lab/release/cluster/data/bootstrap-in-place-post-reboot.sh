#!/bin/bash
# After the reboot of a node that was its own bootstrap host: reports the bootstrap as complete once its API serves,
# waits until the cluster is there, and removes what only the bootstrap needed. Every step may be run again.
set -euo pipefail
secrets=/etc/kubernetes/bootstrap-secrets
api=https://localhost:6443
ca=$secrets/ca.crt cert=$secrets/admin.crt key=$secrets/admin.key

. /usr/local/bin/api-call.sh

api_ready() {
    local answer
    answer="$(call GET /readyz)" || { echo "no answer"; return 1; }
    [[ ${answer##*$'\n'} == 200 ]] || { echo "status ${answer##*$'\n'}"; return 1; }
}

lease_deleted() {
    local answer
    answer="$(call DELETE /apis/coordination.k8s.io/v1/namespaces/openshift-cluster-version/leases/version)" || return 1
    case "${answer##*$'\n'}" in
    200 | 404) ;;
    *) echo "status ${answer##*$'\n'}"; return 1 ;;
    esac
}

condition() {
    local answer status
    answer="$(call GET "$1")" || { echo "no answer"; return 1; }
    status="$(sed '$d' <<<"$answer" | jq -r --arg type "$2" \
        '[(.items // [.])[].status.conditions[]? | select(.type == $type) | .status] | join(",")')"
    [[ $status == True ]] || { echo "$2 is '${status:-absent}'"; return 1; }
}

until_call "the API on this node" 2 api_ready
# What needs the API to do anything starts only now: beside it, it would have taken CPU from it.
if [[ -d /etc/kubernetes/manifests-operators ]]; then
    mv /etc/kubernetes/manifests-operators/*.yaml /etc/kubernetes/manifests/
    rmdir /etc/kubernetes/manifests-operators
fi
until_call "ConfigMap kube-system/bootstrap" 3 bootstrap_complete
until_call "an old lease of the version operator to go" 3 lease_deleted
until_call "this node to be Ready" 10 condition /api/v1/nodes Ready
until_call "the cluster version to be Available" 20 condition \
    /apis/config.openshift.io/v1/clusterversions/version Available

rm -rf /opt/openshift /etc/kubernetes/bootstrap-secrets /etc/kubernetes/bootstrap-configs
systemctl disable bootkube.service
echo "The bootstrap in place is complete"
