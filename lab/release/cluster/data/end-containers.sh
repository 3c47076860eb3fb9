#!/bin/bash
# Ends the node's containers at a shutdown, while the network is there: keepalived first, so that the virtual addresses
# are elsewhere before the servers behind them end. Without this, systemd would end them last of all, and wait a minute
# and a half for those that ignore SIGTERM.
set -u
# cgroup v1, else v2
groups=(/sys/fs/cgroup/pids/kubepods /sys/fs/cgroup/kubepods)
processes() {
    for group in "${groups[@]}"; do
        [[ -d $group ]] || continue
        find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null
        return
    done
}
for process in $(processes); do
    [[ $(cat "/proc/$process/comm" 2>/dev/null) != keepalived ]] || kill "$process"
done
# Within so long another node holds the addresses (VRRP's skew time).
sleep 1
processes | xargs --no-run-if-empty kill
for _ in {1..50}; do
    [[ $(processes) ]] || exit 0
    sleep 0.1
done
processes | xargs --no-run-if-empty kill -KILL
exit 0
