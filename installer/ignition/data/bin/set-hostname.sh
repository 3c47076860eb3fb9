#!/bin/bash
# Gives this machine the hostname whose MAC address it has; one that the configuration does not list says so.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /usr/local/share/start-cluster/start-cluster.env

PATH_PREFIX=${PATH_PREFIX-}
for file in /etc/assisted/hostnames/*; do
    [ -f "$file" ] || continue
    mac=$(basename "$file")
    if grep -qixF -- "$mac" "$PATH_PREFIX"/sys/class/net/*/address 2>/dev/null; then
        name=$(cat "$file")
        echo "$name is the host with $mac"
        printf '%s\n' "$name" >"$PATH_PREFIX/etc/hostname"
        [ -n "$PATH_PREFIX" ] || hostname "$name"
        exit 0
    fi
done
tell_stranger
