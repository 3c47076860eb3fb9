#!/bin/bash
# Shows on the console which of the services that an installation needs are not running.
set -euo pipefail
. /usr/local/bin/common.sh

FAILURES=/run/agent-installer/host-config-failures
while :; do
    down=
    for unit in assisted-service.service agent.service; do
        systemctl is-active --quiet "$unit" || down+=" $unit($(systemctl is-active "$unit" || :))"
    done
    if [ -n "$down" ]; then
        issue_set 70-agent-services "Not running:$down. See journalctl -u UNIT."
    else
        issue_clear 70-agent-services
    fi
    if [ -s "$FAILURES" ]; then
        issue_set 80-host-config "Host configuration failed: $(cat "$FAILURES")"
    else
        issue_clear 80-host-config
    fi
    sleep 5
done
