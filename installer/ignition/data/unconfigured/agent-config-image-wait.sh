#!/bin/bash
# Asks on the console for a config image until one has been loaded.
set -euo pipefail
PATH_PREFIX=${PATH_PREFIX-}
# shellcheck source=/dev/null
. "$PATH_PREFIX/usr/local/bin/common.sh"

ISSUE=60-check-config-image
until [ -f "$PATH_PREFIX/etc/assisted/rendezvous-host.env" ]; do
    issue_set $ISSUE "Insert or mount config image to start cluster installation"
    sleep 5
done
issue_clear $ISSUE
