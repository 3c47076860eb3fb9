#!/bin/bash
# Runs the rendezvous service, or its client with the name of one of the client's commands.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /usr/local/share/assisted-service/agent-images.env

run=(podman run --replace --net host --log-driver passthrough
    --env-file /etc/assisted/rendezvous-host.env
    --env-file /usr/local/share/assisted-service/assisted-service.env
    --env-file /usr/local/share/assisted-service/agent-images.env
    --env-file /etc/assisted/node0
    -v /opt/agent/tls:/opt/agent/tls:ro
    -v /etc/assisted:/etc/assisted
    -v /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro
    -v /etc/containers/registries.conf:/etc/containers/registries.conf:ro
    -v /root/.docker/config.json:/root/.docker/config.json:ro)
[ ! -d /etc/pki/ca-trust/source/anchors ] || run+=(-v /etc/pki/ca-trust/source/anchors:/etc/pki/ca-trust/source/anchors:ro)

case "${1-}" in
    "")
        mkdir -p /var/lib/assisted-service
        exec "${run[@]}" --name assisted-service -v /var/lib/assisted-service:/data/work "$SERVICE_IMAGE"
        ;;
    *)
        mkdir -p /run/agent-installer
        exec "${run[@]}" --name "agent-installer-client-$1" -v /run/agent-installer:/var/run/agent-installer \
            --entrypoint /usr/bin/agent-installer-client "$SERVICE_IMAGE" "$1"
        ;;
esac
