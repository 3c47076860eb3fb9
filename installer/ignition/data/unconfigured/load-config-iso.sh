#!/bin/bash
# Takes a cluster's files from a config image that udev has seen, then starts what leads to its installation.
# load-config-iso.sh DEVICE
set -euo pipefail
PATH_PREFIX=${PATH_PREFIX-}
# shellcheck source=/dev/null
. "$PATH_PREFIX/usr/local/bin/common.sh"

ISSUE=95_load_config_image
DEVICE=$1
MOUNT=$PATH_PREFIX/run/config-image
SET=etc/assisted/manifests/cluster-image-set.yaml
UNITS=$PATH_PREFIX/etc/assisted/config-image-units

# Written when all is done: what fails half-way (systemd starts us again) is done anew.
LOADED=$PATH_PREFIX/run/config-image-loaded

release_of() {
    sed -n 's/^ *releaseImage: *//p' "$1"
}

# The network begins with connections that NetworkManager made up, and it holds on to them through a restart.
bring_up_connections() {
    local file name
    for file in "$PATH_PREFIX"/etc/NetworkManager/system-connections/*.nmconnection; do
        [ -f "$file" ] || continue
        name=$(sed -n '/^id=/{s///p;q}' "$file")
        nmcli --wait 60 connection up id "$name" || echo "warning: the connection $name did not come up" >&2
    done
}

if [ -f "$LOADED" ]; then
    echo "this host has its cluster's files already: $DEVICE is ignored"
    exit 0
fi

staging=$(mktemp -d)
trap 'rm -rf "$staging"; umount "$MOUNT" 2>/dev/null || :' EXIT
mkdir -p "$MOUNT"
mount -o ro "$DEVICE" "$MOUNT"
if [ ! -f "$MOUNT/config.gz" ]; then
    issue_set $ISSUE "Installation cannot proceed: the config image on $DEVICE has no config.gz."
    exit 1
fi
gzip -dc "$MOUNT/config.gz" | (cd "$staging" && cpio --extract --make-directories --quiet --no-absolute-filenames)
if [ ! -f "$staging/$SET" ] || [ "$(release_of "$staging/$SET")" != "$(release_of "$PATH_PREFIX/$SET")" ]; then
    issue_set $ISSUE "Installation cannot proceed: the config image on $DEVICE does not match the current release $(release_of "$PATH_PREFIX/$SET")."
    exit 1
fi
if [ ! -f "$staging/etc/assisted/rendezvous-host.env" ]; then
    issue_set $ISSUE "Installation cannot proceed: the config image on $DEVICE has no rendezvous-host.env."
    exit 1
fi
# The rendezvous host's file comes last: it tells that all others are there.
mv "$staging/etc/assisted/rendezvous-host.env" "$staging.last"
# Files alone: the directories of the host, / among them, keep their modes (here they are for root only).
(cd "$staging" && find . ! -type d -print0 |
    cpio --pass-through --null --make-directories --unconditional --quiet "$PATH_PREFIX/")
mkdir -p "$PATH_PREFIX/etc/assisted/extra-manifests"
mv "$staging.last" "$PATH_PREFIX/etc/assisted/rendezvous-host.env"
issue_clear $ISSUE

if [ -f "$PATH_PREFIX/opt/agent/tls/kubeadmin-password.hash" ]; then
    usermod --password "$(cat "$PATH_PREFIX/opt/agent/tls/kubeadmin-password.hash")" core
fi
if [ -d "$PATH_PREFIX/etc/assisted/network" ]; then
    "$PATH_PREFIX/usr/local/bin/pre-network-manager-config.sh"
    systemctl restart NetworkManager
    bring_up_connections
fi
systemctl daemon-reexec # the proxy's environment
# shellcheck disable=SC2046
systemctl enable --now --no-block $(cat "$UNITS")
touch "$LOADED"
echo "the files of the config image on $DEVICE are in place"
