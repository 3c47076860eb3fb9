#!/bin/bash
# Approves the nodes' CSRs while the bootstrap lasts.
set -euo pipefail
. /usr/local/bin/pause.sh
image="$release_image"
# bootkube.service pulls it.
until podman image exists "$$image"; do
    pause 5
done
exec podman run --rm --replace --detach --sdnotify=conmon --cgroups=no-conmon --log-driver passthrough \
    --name approve-csr --net host --authfile /root/.docker/config.json \
    --volume /opt/openshift:/opt/openshift:ro --entrypoint python3 "$$image" -u -m lab.release.cluster.controller.command \
    --kubeconfig /opt/openshift/auth/kubeconfig-loopback --until /opt/openshift/.bootkube.done
