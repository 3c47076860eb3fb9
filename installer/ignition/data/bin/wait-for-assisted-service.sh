#!/bin/bash
# Returns when the rendezvous service answers.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env

uptime_now
started=$UPTIME
until service_listens && curl --silent --fail --max-time 5 --cacert /opt/agent/tls/ca.crt --output /dev/null "${SERVICE_BASE_URL%/}/ready"; do
    uptime_now
    waited=$((UPTIME - started))
    if [ "$waited" -ge "${1:-900}" ]; then
        echo "assisted-service at $SERVICE_BASE_URL did not become ready in $waited s: $(systemctl is-active assisted-service)" >&2
        exit 1
    fi
    pause 1
done
