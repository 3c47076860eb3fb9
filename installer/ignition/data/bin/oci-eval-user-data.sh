#!/bin/bash
# Runs the script that is this instance's user data in Oracle's cloud (OCI), such as one that logs in to iSCSI volumes.
# Does nothing on any other machine.
set -euo pipefail
PATH_PREFIX=${PATH_PREFIX-}
METADATA=${METADATA-http://169.254.169.254/opc/v2/instance/metadata}

if [ "$(cat "$PATH_PREFIX/sys/class/dmi/id/chassis_asset_tag")" != OracleCloud.com ]; then
    echo "not in Oracle's cloud: nothing to do"
    exit 0
fi
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
status=$(curl --silent --show-error --location --header "Authorization: Bearer Oracle" --max-time 30 \
    --retry 5 --retry-delay 30 --retry-connrefused --output "$answer" --write-out '%{http_code}' "$METADATA/user_data")
case $status in
200) ;;
404)
    echo "this instance has no user data"
    exit 0
    ;;
*)
    echo "$METADATA/user_data answers with status $status" >&2
    exit 1
    ;;
esac
script=$(base64 --decode "$answer")
bash <(printf '%s\n' "$script")
