# Sourced by bootstrap services: keeps /var/log/openshift/<service>.json, an array of records in order.
RECORD_SERVICE="$(basename "${BASH_SOURCE[-1]}" .sh)"
RECORD_FILE="/var/log/openshift/$RECORD_SERVICE.json"
RECORD_STAGE=""

# record PHASE RESULT MESSAGE
record() {
    mkdir -p /var/log/openshift
    [[ -s $RECORD_FILE ]] || echo '[]' >"$RECORD_FILE"
    jq --arg at "$(date -u +%Y-%m-%dT%H:%M:%SZ)" --arg phase "$1" --arg result "$2" --arg message "$3" \
        --arg stage "$RECORD_STAGE" \
        '. + [{timestamp: $at, phase: $phase}
            + (if $stage != "" then {stage: $stage} else {} end)
            + (if $result != "" then {result: $result} else {} end)
            + (if $message != "" then {errorMessage: $message} else {} end)]' \
        "$RECORD_FILE" >"$RECORD_FILE.new" && mv "$RECORD_FILE.new" "$RECORD_FILE"
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

record "service start" "" ""
trap record_exit EXIT
