#!/bin/bash
# Brings up a temporary etcd and kube-apiserver and fills them. In place, it then leaves /opt/openshift/master.ign; else
# it serves the control plane nodes until two of them carry the control plane, and lets go.
# One long-lived container does the work that needs the payload's code, so that no container start is spent on a step of
# a second. It and this script take turns by files in the directory $$turns: `said-<word>` and `told-<word>`.
set -euo pipefail
cd /opt/openshift
. /usr/local/bin/bootstrap-service-record.sh
. /usr/local/bin/pause.sh

RELEASE_IMAGE="$release_image"
AUTH=/root/.docker/config.json

turns=/opt/openshift/turns

# expect WORD: wait until the container has said WORD
expect() {
    local pid
    read -r pid </run/cluster-bootstrap.pid || [[ -n $$pid ]]
    until [[ -e $$turns/said-$$1 ]]; do
        if ! kill -0 "$$pid" 2>/dev/null && [[ ! -e $$turns/said-$$1 ]]; then
            echo "cluster-bootstrap ended where '$$1' was due" >&2
            return 1
        fi
        pause 1
    done
}

tell() {
    touch "$$turns/told-$$1"
}

# start NAME...: containers whose commands the worker has written
start() {
    local name
    for name in "$$@"; do
        bash "bootstrap-manifests/$$name.sh" >/dev/null
        echo "Started the temporary $$name"
    done
}

stage_start cleanup
podman rm --force --ignore --time 0 cluster-bootstrap cluster-version-operator machine-config-server \
    kube-scheduler kube-controller-manager kube-apiserver etcd keepalived >/dev/null
# A run that failed half-way must not leave its state to the next one.
rm -rf /var/lib/etcd/member master.ign bootstrap-manifests
mkdir -p /etc/kubernetes/static-pod-resources /etc/cvo/updatepayloads bootstrap-manifests
install -d -m 0700 /var/lib/etcd
stage_success

stage_start release-image
tries=0
until podman image exists "$$RELEASE_IMAGE" || podman pull --quiet --authfile "$$AUTH" "$$RELEASE_IMAGE"; do
    ((++tries))
    echo "Pulling the release image failed $$tries times; trying again" >&2
    pause 5
done
stage_success

stage_start render
/usr/local/bin/node-ip.sh /run/nodeip-configuration.env
. /run/nodeip-configuration.env
rm -rf "$$turns"
mkdir -p "$$turns"
# Detached: an attached podman asks four times a second whether its container is still there.
podman run --rm --detach --conmon-pidfile /run/cluster-bootstrap.pid --log-driver passthrough \
    --name cluster-bootstrap --net host --authfile "$$AUTH" \
    --volume /opt/openshift:/opt/openshift --volume /etc/kubernetes:/etc/kubernetes \
    --volume /var/lib/etcd:/var/lib/etcd \
    --env "NODE_IPS=$$KUBELET_NODE_IPS" --env "NODE_NAME=$$(hostname | tr '[:upper:]' '[:lower:]')" \
    --env "NODE_INTERFACE=$$NODE_INTERFACE" --env "OS_ID=$$(. /etc/os-release && echo "$$ID")" \
    --entrypoint python3 "$$RELEASE_IMAGE" -u -m lab.release.cluster.bootkube.command >/dev/null
expect rendered
stage_success

# An API server ends when its last watcher has gone, or after a minute; whatever it has answered is in etcd.
stop_api() {
    podman stop --time 3 kube-apiserver >/dev/null
}

in_place() {
    stage_start cb-bootstrap
    start etcd kube-apiserver
    expect applied
    stage_success

    stage_start stop-etcd
    stop_api
    podman stop etcd >/dev/null
    tell stopped
    stage_success

    stage_start master-ignition
    expect written
    podman rm --force --ignore kube-apiserver etcd >/dev/null
    stage_success
}

for_others() {
    local operators=(cluster-version-operator kube-controller-manager kube-scheduler)
    stage_start cb-bootstrap
    [[ ! -e bootstrap-manifests/keepalived.sh ]] || start keepalived
    start etcd kube-apiserver
    # It serves files: the nodes can boot from their disks while the API server starts.
    start machine-config-server
    expect serving
    # It signs the nodes' first certificates, and takes half a minute to begin: while the manifests are created.
    start kube-controller-manager
    expect applied
    start cluster-version-operator kube-scheduler
    expect joined
    stage_success

    stage_start wait-for-ceo
    podman stop machine-config-server >/dev/null
    podman stop "$${operators[@]}" >/dev/null
    tell operators-stopped
    expect released
    # The API's address goes to a node at once; etcd's member stays until the cluster removes it.
    podman rm --force --ignore keepalived >/dev/null
    stop_api
    podman rm --force --ignore machine-config-server "$${operators[@]}" kube-apiserver >/dev/null
    stage_success
}

if [[ -e bootstrap-in-place ]]; then
    in_place
else
    for_others
fi

touch .bootkube.done
echo "bootkube.service complete"
