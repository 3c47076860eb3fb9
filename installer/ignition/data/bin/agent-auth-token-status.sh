#!/bin/bash
# Says on the console when the tokens of this image have expired: its service then lets in neither agent nor scripts.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/add-nodes.env

expiry=$(date -d "$AUTH_TOKEN_EXPIRY" +%s)
# Looked at each minute, since the clock may be set while the system runs.
until now=$(date +%s) && [ "$now" -ge "$expiry" ]; do
    left=$((expiry - now))
    pause $((left < 60 ? left : 60))
done
issue_set 65-token "The tokens of this image expired at $AUTH_TOKEN_EXPIRY: make a new one (node0 agent add-nodes create), and boot that."
