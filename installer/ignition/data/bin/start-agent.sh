#!/bin/bash
# Waits until the rendezvous service has an infra-env, then runs the agent.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env /usr/local/share/assisted-service/agent-images.env

# Started is what systemd may call us now; later, podman names its conmon as the main process.
[ -z "${NOTIFY_SOCKET:-}" ] || systemd-notify --ready

# Pull while the service comes up.
podman image exists "$AGENT_DOCKER_IMAGE" || podman pull --quiet "$AGENT_DOCKER_IMAGE"

echo "waiting for an infra-env at $SERVICE_BASE_URL"
reason="nobody listens there"
# Over the network a look is two processes, and the service takes minutes to come up.
every=5
[ ! -e /etc/assisted/node0 ] || every=1
uptime_now
due=$((UPTIME + 30))
until service_listens && reason="it has no infra-env yet" &&
    id=$(api GET infra-envs 2>/run/start-agent.err | jq -re '.[0].id'); do
    [ ! -s /run/start-agent.err ] || reason=$(tail -n 1 /run/start-agent.err)
    # Every minute, so that the console tells what is the matter.
    uptime_now
    if [ "$UPTIME" -ge "$due" ]; then
        due=$((UPTIME + 60))
        issue_set 65-agent "The agent waits for the rendezvous service at $SERVICE_BASE_URL: $reason"
    fi
    pause "$every"
done
issue_clear 65-agent

exec podman run --replace --detach --sdnotify=conmon --cgroups=no-conmon --name agent --privileged --net host --pid host --log-driver passthrough \
    --env PULL_SECRET_TOKEN -v /:/host:rslave -v /opt/agent/tls/ca.crt:/opt/agent/tls/ca.crt:ro \
    "$AGENT_DOCKER_IMAGE" /usr/bin/agent --url "$SERVICE_BASE_URL" --infra-env-id "$id" --agent-version "$AGENT_DOCKER_IMAGE" \
    --cacert /opt/agent/tls/ca.crt
