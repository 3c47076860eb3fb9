# shellcheck shell=bash
# Sourced: calls of the cluster's API with curl. The caller sets api (https://host:port), ca, cert and key (files).
. /usr/local/bin/pause.sh

# call METHOD PATH [BODY]: prints the answer's body, then its status on a line of its own
call() {
    curl --silent --show-error --max-time 60 --noproxy '*' --cacert "$ca" --cert "$cert" --key "$key" \
        --request "$1" --header 'Content-Type: application/json' ${3:+--data "$3"} --write-out '\n%{http_code}\n' "$api$2"
}

# until_call WHAT SECONDS COMMAND...: repeats until the command succeeds; says what it waits for when that changes
until_call() {
    local what="$1" every="$2" seen="" last=""
    shift 2
    until seen="$("$@" 2>&1)"; do
        if [[ $seen != "$last" ]]; then
            echo "Waiting for $what: $seen"
            last="$seen"
        fi
        pause "$every"
    done
    echo "Done: $what"
}

bootstrap_complete() {
    local answer body
    body='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bootstrap","namespace":"kube-system"},"data":{"status":"complete"}}'
    answer="$(call POST /api/v1/namespaces/kube-system/configmaps "$body")" || { echo "no answer"; return 1; }
    case "${answer##*$'\n'}" in
    201 | 409) ;;
    *) echo "status ${answer##*$'\n'}"; return 1 ;;
    esac
}
