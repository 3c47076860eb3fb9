#!/bin/bash
# Installs the machine OS on the disk that the hints choose, then restarts into it.
set -euo pipefail
cd /etc/node0-install

device=$(jq --raw-output '.deviceName // empty' hints.json)
if [[ -n $device ]]; then
    device=$(readlink --canonicalize "$device")
fi
disks=$(lsblk --json --bytes --nodeps --output PATH,TYPE,SIZE,SERIAL,WWN,MODEL,VENDOR,HCTL,ROTA,RM,RO)
disk=$(jq --raw-output --arg device "$device" --slurpfile hints hints.json --from-file choose-disk.jq <<< "$disks")
if [[ -z $disk ]]; then
    echo "no disk of 4 GiB or more matches the root device hints $(jq --compact-output . hints.json) of ${disks//[$'\n ']/}" >&2
    exit 1
fi
echo "installing on $disk"
options=(--ignition-file config.ign)
if [[ -e copy-network ]]; then
    options+=(--copy-network)
fi
coreos-installer install "${options[@]}" "$disk"
systemctl --no-block reboot
