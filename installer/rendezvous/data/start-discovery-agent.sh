#!/bin/bash
# Runs the agent of a host that was booted from a discovery image: the service is known, and so is the infra-env.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/discovery.env

# Started is what systemd may call us now; later, podman names its conmon as the main process.
[ -z "${NOTIFY_SOCKET:-}" ] || systemd-notify --ready

if ! podman image exists "$AGENT_DOCKER_IMAGE" && ! reason=$(podman pull --quiet "$AGENT_DOCKER_IMAGE" 2>&1); then
    issue_set 65-agent "The agent's image cannot be pulled, the next try follows: ${reason##*$'\n'}"
    exit 1
fi
issue_clear 65-agent

# Detached: an attached podman asks four times a second whether its container is still there.
exec podman run --replace --detach --sdnotify=conmon --cgroups=no-conmon --name agent --privileged --net host --pid host --log-driver passthrough \
    --env PULL_SECRET_TOKEN -v /:/host:rslave -v /opt/agent/tls/ca.crt:/opt/agent/tls/ca.crt:ro \
    "$AGENT_DOCKER_IMAGE" /usr/bin/agent --url "$SERVICE_BASE_URL" --infra-env-id "$INFRA_ENV_ID" \
    --agent-version "$AGENT_DOCKER_IMAGE" --cacert /opt/agent/tls/ca.crt
