#!/bin/bash
# Runs the rendezvous service, or its client with the name of one of the client's commands.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /usr/local/share/assisted-service/agent-images.env

# Detached, with conmon as the unit's main process: an attached podman asks four times a second whether its container is
# still there, which on a slow CPU is a tenth of it.
run=(podman run --replace --detach --sdnotify=conmon --cgroups=no-conmon --net host --log-driver passthrough
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

if [ $# -gt 0 ]; then
    # Inside the service's own container: it has all that the client needs, and a container less to make is
    # several seconds less on a slow host.
    exec podman exec assisted-service /usr/bin/agent-installer-client "$1"
fi
# Started is what systemd may call us now; later, podman names its conmon as the main process.
[ -z "${NOTIFY_SOCKET:-}" ] || systemd-notify --ready

mkdir -p /var/lib/assisted-service /run/agent-installer
exec "${run[@]}" --name assisted-service -v /var/lib/assisted-service:/data/work \
    -v /run/agent-installer:/var/run/agent-installer "$SERVICE_IMAGE"
