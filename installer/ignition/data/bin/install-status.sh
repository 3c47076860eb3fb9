#!/bin/bash
# Shows on the console which of the services that an installation needs are not running.
set -euo pipefail
. /usr/local/bin/common.sh

UNITS=(assisted-service.service agent.service)
FAILURES=/run/agent-installer/host-config-failures
while :; do
    down=
    mapfile -t states < <(systemctl is-active "${UNITS[@]}")
    for index in "${!UNITS[@]}"; do
        [ "${states[index]-}" = active ] || down+=" ${UNITS[index]}(${states[index]-unknown})"
    done
    if [ -n "$down" ]; then
        issue_set 70-agent-services "Not running:$down. See journalctl -u UNIT."
    else
        issue_clear 70-agent-services
    fi
    if [ -s "$FAILURES" ]; then
        issue_set 80-host-config "Host configuration failed: $(<"$FAILURES")"
    else
        issue_clear 80-host-config
    fi
    # Each look is a process and a question to systemd; on an emulated CPU two in a hundred of it at every 10 s.
    pause 30
done
