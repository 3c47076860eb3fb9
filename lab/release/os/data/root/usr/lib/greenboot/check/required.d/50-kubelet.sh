#!/bin/bash
# A node whose kubelet does not come up is lost to its cluster, whatever else runs on it.
seconds=300 most=5
systemctl --quiet is-enabled kubelet.service || exit 0
read -r up _ < /proc/uptime
deadline=$((${up%.*} + seconds))
until [[ $(curl --silent --max-time 5 http://127.0.0.1:10248/healthz) == ok ]]; do
    restarts=$(systemctl show --property=NRestarts --value kubelet.service)
    if ((restarts >= most)); then
        echo "kubelet.service has ended $restarts times"
        exit 1
    fi
    read -r up _ < /proc/uptime
    if ((${up%.*} >= deadline)); then
        echo "the kubelet has not answered within $seconds s"
        exit 1
    fi
    sleep 2
done
