#!/bin/bash
# Shows on the console which of the services that an installation needs are not running, or cannot be pulled. What is
# wrong is in sshd's banner too: whoever waits from outside is told before there is a service, and without a key.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env

UNITS=(assisted-service.service agent.service)
RUN_DIR=${PATH_PREFIX-}/run/agent-installer
FAILURES=$RUN_DIR/host-config-failures
TROUBLES=(70-agent-services 75-agent-images 80-host-config)
# Podman's words for a pull that failed and is tried again, and for one that is given up.
PULL='level=warning msg="Failed, retrying|^Error: .*(initializing source|copying system image|reading blob)'

# unpulled UNIT: the last line of its journal, when that is a pull that failed.
unpulled() {
    local line
    line=$(journalctl --boot --quiet --output cat --lines 1 --unit "$1") || return 0
    [[ $line =~ $PULL ]] || return 0
    line=${line#*Error: }
    printf '%s' "${line:0:600}"
}

banner() {
    local name text=
    for name in "${TROUBLES[@]}"; do
        [ ! -s "$ISSUE_DIR/$name.issue" ] || text+="install-status: $(<"$ISSUE_DIR/$name.issue")"$'\n'
    done
    mkdir -p "$RUN_DIR"
    printf '%s' "$text" >"$RUN_DIR/banner"
}

while :; do
    down="" images=""
    mapfile -t states < <(systemctl is-active "${UNITS[@]}")
    for index in "${!UNITS[@]}"; do
        [ "${states[index]-}" = active ] || down+=" ${UNITS[index]}(${states[index]-unknown})"
    done
    if [ -n "$down" ]; then
        issue_set 70-agent-services "Not running:$down. See journalctl -u UNIT."
    else
        issue_clear 70-agent-services
    fi
    # Once it listens, it has been pulled, and hosts say the rest to it.
    if ! service_listens; then
        for unit in "${UNITS[@]}"; do
            why=$(unpulled "$unit")
            [ -z "$why" ] || images="$unit: $why"
            [ -z "$images" ] || break
        done
    fi
    if [ -n "$images" ]; then
        issue_set 75-agent-images "Images cannot be pulled: $images"
    else
        issue_clear 75-agent-images
    fi
    if [ -s "$FAILURES" ]; then
        issue_set 80-host-config "Host configuration failed: $(<"$FAILURES")"
    else
        issue_clear 80-host-config
    fi
    banner
    # Each look is a process and a question to systemd; on an emulated CPU two in a hundred of it at every 10 s.
    pause 30
done
