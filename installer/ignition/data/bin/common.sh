# Shared by the scripts of the live host. Sourced, never run.
# shellcheck shell=bash

ISSUE_DIR=${PATH_PREFIX-}/etc/issue.d

# issue_set NAME TEXT: what the console shows above its login prompt, and the journal once per change.
issue_set() {
    local file="$ISSUE_DIR/$1.issue"
    [ -d "$ISSUE_DIR" ] || mkdir -p "$ISSUE_DIR"
    [ -f "$file" ] && [ "$(<"$file")" = "$2" ] && return 0
    printf '%s\n' "$2" >"$file"
    printf '%s\n' "$2"
    # There a full-screen program shows the files (installer/tui).
    [ -e "${PATH_PREFIX-}/etc/assisted/interactive-ui" ] && return 0
    [ -w /dev/console ] && printf '%s\n' "$2" >/dev/console
    return 0
}

issue_clear() {
    [ ! -e "$ISSUE_DIR/$1.issue" ] || rm -f "$ISSUE_DIR/$1.issue"
}

# uptime_now: puts the seconds that this machine has been running into UPTIME. bash's SECONDS follow the clock, which
# NTP sets while hosts are being discovered: a minute may be over at once, or in an hour.
uptime_now() {
    read -r UPTIME _ </proc/uptime
    UPTIME=${UPTIME%.*}
}

# pause SECONDS: sleep without a process. On an emulated CPU a fork and an exec cost tens of milliseconds, and loops
# that wait for the service run while its image is being unpacked.
pause() {
    [ -n "${PAUSE_FD-}" ] || exec {PAUSE_FD}<> <(:)
    read -r -t "$1" -u "$PAUSE_FD" _ || :
}

# service_listens: whether anybody accepts connections where the rendezvous service is to be.
service_listens() {
    local address=/dev/tcp/$NODE_ZERO_IP/${SERVICE_PORT:-8090}
    if [ -e /etc/assisted/node0 ]; then
        { : <>"$address"; } 2>/dev/null
    else
        # Over the network a connection may hang for minutes.
        timeout 5 bash -c ": <>$address" 2>/dev/null
    fi
}

# load_env FILE...: export the variables of systemd-style environment files.
load_env() {
    local file
    set -a
    for file in "$@"; do
        # shellcheck disable=SC1090
        . "$file"
    done
    set +a
}

# api METHOD PATH [curl arguments]: one call of the rendezvous service with the user token.
# The token goes through a file descriptor, so that it shows in no process list.
api() {
    local method=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --max-time 30 --cacert /opt/agent/tls/ca.crt \
        --config <(printf 'header = "Authorization: %s"\n' "$USER_AUTH_TOKEN") \
        --request "$method" "$@" "${SERVICE_BASE_URL%/}/api/assisted-install/v2/$path"
}

# tell_stranger: shows on the console that the configuration lists no NIC of this machine, and the host that it may be.
# Where the configuration leaves hosts undescribed, only a machine that looks mistyped says so.
tell_stranger() {
    local address best=3 differs file=/etc/assisted/expected-hosts index listed=0 mac macs name near="" own=() text
    [ -s "$file" ] || return 0
    for address in "${PATH_PREFIX-}"/sys/class/net/*/address; do
        [ -r "$address" ] && mac=$(<"$address") && [[ ${mac,,} =~ ^([0-9a-f]{2}:){5}[0-9a-f]{2}$ ]] || continue
        [ "$mac" = 00:00:00:00:00:00 ] || own+=("${mac,,}")
    done
    while read -r macs name; do
        listed=$((listed + 1))
        for mac in ${macs//,/ }; do
            for address in "${own[@]}"; do
                differs=0
                for ((index = 0; index < ${#mac}; index++)); do
                    [ "${mac:index:1}" = "${address:index:1}" ] || differs=$((differs + 1))
                done
                if [ "$differs" = 0 ]; then
                    issue_clear 62-stranger
                    return 0
                elif [ "$differs" -lt "$best" ]; then
                    best=$differs near="$mac${name:+ ($name)}"
                fi
            done
        done
    done <"$file"
    text="No NIC of this machine is in the configuration: it has ${own[*]:-none}."
    if [ -n "$near" ]; then
        [ "$best" = 1 ] && best="one digit" || best="two digits"
        text+=" It looks like the host with $near, and $best changed: is one of the two mistyped?"
    elif [ "$listed" -lt $((${REQUIRED_MASTER_NODES-0} + ${REQUIRED_ARBITER_NODES-0} + ${REQUIRED_WORKER_NODES-0})) ]; then
        return 0
    fi
    issue_set 62-stranger "$text"
}
