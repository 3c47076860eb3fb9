# Shared by the scripts of the live host. Sourced, never run.
# shellcheck shell=bash

ISSUE_DIR=${PATH_PREFIX-}/etc/issue.d

# issue_set NAME TEXT: what the console shows above its login prompt, and the journal once per change.
issue_set() {
    local file="$ISSUE_DIR/$1.issue"
    mkdir -p "$ISSUE_DIR"
    [ "$(cat "$file" 2>/dev/null)" = "$2" ] && return 0
    printf '%s\n' "$2" >"$file"
    printf '%s\n' "$2"
    [ -w /dev/console ] && printf '%s\n' "$2" >/dev/console
    return 0
}

issue_clear() {
    rm -f "$ISSUE_DIR/$1.issue"
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
