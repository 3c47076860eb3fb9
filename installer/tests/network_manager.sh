# A NetworkManager that sees nothing of this machine: run inside `unshare --mount --net` with a scratch directory, which
# holds profiles/ and questions (arguments of nmcli, one line each); answers go to answer0, answer1, ...
set -euo pipefail
scratch=$1
mount --make-rprivate /
for place in /etc/NetworkManager /run/NetworkManager /var/lib/NetworkManager /run/dbus; do
    mkdir -p "$place"
    mount -t tmpfs tmpfs "$place"
done
mkdir /etc/NetworkManager/system-connections
cp "$scratch"/profiles/* /etc/NetworkManager/system-connections/
chmod 600 /etc/NetworkManager/system-connections/*
cat >/etc/NetworkManager/NetworkManager.conf <<'CONF'
[main]
plugins=keyfile
dns=none
rc-manager=unmanaged
no-auto-default=*
auth-polkit=root-only
CONF
cat >"$scratch/bus.conf" <<'CONF'
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <policy context="default">
    <allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow user="*"/>
  </policy>
</busconfig>
CONF
ip link set lo up
dbus-daemon --config-file="$scratch/bus.conf" --nofork --nopidfile &
bus=$!
/usr/sbin/NetworkManager --debug --config=/etc/NetworkManager/NetworkManager.conf --pid-file="$scratch/pid" \
    >"$scratch/log" 2>&1 &
manager=$!
trap 'kill "$manager" "$bus" 2>/dev/null; wait' EXIT
deadline=$((SECONDS + 30))
until [ "$(nmcli -t -f RUNNING general 2>/dev/null)" = running ]; do
    kill -0 "$manager" 2>/dev/null || { echo "NetworkManager ended before it was ready"; exit 1; }
    [ "$SECONDS" -lt "$deadline" ] || { echo "NetworkManager not running after 30 s"; exit 1; }
    sleep 0.05
done
number=0
while IFS= read -r question; do
    eval "nmcli $question" >"$scratch/answer$number" 2>&1 || true
    number=$((number + 1))
done <"$scratch/questions"
