#!/bin/bash
# Runs the rendezvous service, or its client with the name of one of the client's commands; --ended when it has ended.
set -euo pipefail
. /usr/local/bin/common.sh

if [ "${1-}" = --ended ]; then
    # From 125 to 127 it is podman that could not begin: install-status.sh tells why.
    case ${SERVICE_RESULT-success}:${EXIT_STATUS-} in success:* | *:12[5-7]) exit 0 ;; esac
    state=$(systemctl show --property=Job --property=NRestarts assisted-service.service)
    # Whoever stops it, or the machine, has a job for that.
    [[ ! $state =~ Job=[1-9] ]] || exit 0
    [[ $state =~ NRestarts=([0-9]+) ]] || :
    issue_set 72-agent-service "assisted-service.service ended by itself (${EXIT_CODE-} ${EXIT_STATUS-}, restarts before:\
 ${BASH_REMATCH[1]-?}) and is started again. See journalctl -u assisted-service."
    exit 0
fi
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
[ ! -e /etc/assisted/add-nodes.env ] || run+=(--env-file /etc/assisted/add-nodes.env)
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
