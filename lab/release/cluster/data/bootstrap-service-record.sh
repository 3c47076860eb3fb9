# Sourced by bootstrap services: keeps /var/log/openshift/<service>.json, an array of records in order.
# Shell only, no programs: under software emulation each would cost more than most of the steps that are recorded.
RECORD_SERVICE="${BASH_SOURCE[-1]##*/}"
RECORD_FILE="/var/log/openshift/${RECORD_SERVICE%.sh}.json"
RECORD_STAGE=""
RECORDS=""
mkdir -p /var/log/openshift
if [[ -s $RECORD_FILE ]]; then
    RECORDS="$(<"$RECORD_FILE")"
    RECORDS="${RECORDS#[}"
    RECORDS="${RECORDS%]}"
fi

# record PHASE RESULT MESSAGE: none of them may hold quotes or control characters
record() {
    local entry
    printf -v entry '{"timestamp": "%(%Y-%m-%dT%H:%M:%SZ)T", "phase": "%s"' -1 "$1"
    [[ -z $RECORD_STAGE ]] || entry+=", \"stage\": \"$RECORD_STAGE\""
    [[ -z $2 ]] || entry+=", \"result\": \"$2\""
    [[ -z $3 ]] || entry+=", \"errorMessage\": \"$3\""
    RECORDS+="${RECORDS:+,}"$'\n'"$entry}"
    printf '[%s]\n' "${RECORDS#,}" >"$RECORD_FILE"
}

stage_start() {
    RECORD_STAGE="$1"
    record "stage start" "" ""
}

stage_success() {
    record "stage end" success ""
    RECORD_STAGE=""
}

record_exit() {
    local code=$?
    if ((code == 0)); then
        record "service end" success ""
        return
    fi
    [[ -z $RECORD_STAGE ]] || record "stage end" failure "exit code $code"
    RECORD_STAGE=""
    record "service end" failure "exit code $code"
}

export TZ=UTC
record "service start" "" ""
trap record_exit EXIT
