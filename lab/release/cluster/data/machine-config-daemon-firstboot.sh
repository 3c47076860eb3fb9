#!/bin/bash
# Brings the kernel arguments of the node's MachineConfig, and fips=1 where it has `fips`, into the boot loader's
# configuration, and reboots into them, before the node joins (reference/cluster.md §3.2). With two arguments, words to
# delete and words to append, it brings those in, and no more: so the daemon changes them later.
set -euo pipefail
set -o noglob
encapsulated=/etc/ignition-machine-config-encapsulated.json
read -r -a now </proc/cmdline
gone=() missing=()
if (($#)); then
    read -r -a gone <<<"$1"
    read -r -a missing <<<"$2"
else
    for word in $(jq -r '(.spec | if .fips then "fips=1" else empty end), .spec.kernelArguments[]?' "$encapsulated"); do
        [[ " ${now[*]} " == *" $word "* ]] || missing+=("$word")
    done
fi
if ((${#gone[@]} + ${#missing[@]})); then
    for word in "${now[@]}"; do
        case $word in boot=*) source=${word#boot=} ;; esac
    done
    place=/run/machine-config-daemon/boot
    mkdir -p "$place"
    # Of a disk with several paths, udev's links lead to the partition that can be mounted once it has seen all.
    udevadm settle --timeout=60 || true
    mount "${source:-LABEL=boot}" "$place"
    trap 'umount "$place"' EXIT
    config=$place/grub/installed.cfg
    found=""
    while IFS= read -r line; do
        if [[ $line == 'set node0_kargs="'*'"' ]]; then
            line=${line#*\"} words=()
            for word in ${line%\"}; do
                [[ " ${gone[*]} " == *" $word "* ]] || words+=("$word")
            done
            words+=("${missing[@]}")
            line="set node0_kargs=\"${words[*]}\""
            found=yes
        fi
        printf '%s\n' "$line"
    done <"$config" >"$config.new"
    [[ $found ]] || { echo "$config names no kernel arguments" >&2; exit 1; }
    mv "$config.new" "$config"
    sync -f "$place"
fi
if (($#)); then
    exit
fi
mv "$encapsulated" "$encapsulated.bak"
sync -f /etc
if ((${#missing[@]})); then
    echo "Rebooting for the kernel arguments ${missing[*]}"
    systemctl --no-block reboot
fi
