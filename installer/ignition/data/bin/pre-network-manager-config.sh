#!/bin/bash
# Puts the keyfiles of the host that this machine is (found by MAC address) in place before NetworkManager starts; in the
# initramfs of a minimal image to where CoreOS takes its network from.
set -euo pipefail

PATH_PREFIX=${PATH_PREFIX-}
SOURCE=$PATH_PREFIX/etc/assisted/network
TARGET=$PATH_PREFIX/etc/NetworkManager/system-connections
[ ! -e "$PATH_PREFIX/etc/initrd-release" ] || TARGET=$PATH_PREFIX/etc/coreos-firstboot-network
MAX_NAME=15 # IFNAMSIZ less its NUL

[ -d "$SOURCE" ] || exit 0

declare -A kernel_name # MAC -> the kernel's name of the NIC
for address in "$PATH_PREFIX"/sys/class/net/*/address; do
    [ -r "$address" ] || continue
    mac=$(<"$address")
    nic=${address%/address}
    [ -n "$mac" ] && kernel_name[${mac^^}]=${nic##*/}
done

# vlan_name LOGICAL KERNEL NAME: a VLAN interface called <logical>.<id> follows its NIC's name, shortened to fit.
vlan_name() {
    local id=${3#"$1".} nic=$2
    printf '%s.%s' "${nic:0:$((MAX_NAME - 1 - ${#id}))}" "$id"
}

staging=$TARGET.new
rm -rf "$staging"
mkdir -p "$staging"
chmod 700 "$staging"
trap 'rm -rf "$staging"' EXIT
matched=

for host in "$SOURCE"/host*/; do
    [ -d "$host" ] || continue
    ini=$host/mac_interface.ini
    if [ ! -f "$ini" ]; then
        echo "warning: $host has no mac_interface.ini, skipped" >&2
        continue
    fi
    declare -A rename=() # logical name -> kernel's name
    mine=
    while IFS="=" read -r mac logical; do
        mac=${mac^^}
        [ -n "$mac" ] || continue
        if [ -n "${kernel_name[$mac]-}" ]; then
            mine=1
            [ -n "$logical" ] || continue
            rename[$logical]=${kernel_name[$mac]}
        fi
    done <"$ini"
    [ -n "$mine" ] || continue
    if ! compgen -G "$host/*.nmconnection" >/dev/null; then
        echo "warning: $host has no nmconnection files, skipped" >&2
        continue
    fi
    folder=${host%/}
    echo "this machine is ${folder##*/}"
    matched=1
    for file in "$host"/*.nmconnection; do
        name=${file##*/}
        stem=${name%.nmconnection}
        content=$(<"$file")
        target=$name
        for logical in "${!rename[@]}"; do
            real=${rename[$logical]}
            if [ "$stem" = "$logical" ]; then
                target=$real.nmconnection
            elif [ "${stem#"$logical".}" != "$stem" ]; then
                target=$(vlan_name "$logical" "$real" "$stem").nmconnection
            fi
            [ "$logical" = "$real" ] && continue
            escaped=$(printf '%s' "$logical" | sed 's/[][\.*+?(){}|^$/]/\\&/g')
            # A placeholder first: one logical name may be another NIC's real name.
            content=$(printf '%s\n' "$content" | sed -E \
                -e "s/=${escaped}\$/=@@${real}@@/" \
                -e "s/=${escaped}\.([0-9]+)\$/=@@${real}@@.\1/" \
                -e "/^routing-rule/s/ iif ${escaped}((\.[0-9]+)? )/ iif @@${real}@@\1/")
        done
        content=$(printf '%s\n' "$content" | while IFS= read -r line; do
            if [[ $line =~ ^(.*(=| iif ))@@(.*)@@\.([0-9]+)( .*)?$ ]]; then
                printf '%s%s%s\n' "${BASH_REMATCH[1]}" \
                    "$(vlan_name x "${BASH_REMATCH[3]}" "x.${BASH_REMATCH[4]}")" "${BASH_REMATCH[5]}"
            else
                printf '%s\n' "${line//@@/}"
            fi
        done)
        if [ -e "$staging/$target" ]; then
            echo "error: two files of $host would both become $target" >&2
            continue
        fi
        printf '%s\n' "$content" >"$staging/$target"
        chmod 600 "$staging/$target"
    done
done

if [ -z "$matched" ]; then
    echo "no host configuration has a MAC address of this machine: network by DHCP"
    exit 0
fi
mkdir -p "$TARGET"
rm -rf "${TARGET:?}"/*
cp -p "$staging"/*.nmconnection "$TARGET"/
