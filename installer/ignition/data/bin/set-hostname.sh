#!/bin/bash
# Gives this machine the hostname whose MAC address it has.
set -euo pipefail

PATH_PREFIX=${PATH_PREFIX-}
for file in "$PATH_PREFIX"/etc/assisted/hostnames/*; do
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
