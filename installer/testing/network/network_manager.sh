# A NetworkManager that sees nothing of this machine: run inside `unshare --mount --net` with a scratch directory, which
# holds profiles/ and questions (arguments of nmcli, one line each); answers go to answer0, answer1, ... NICS names NICs
# that it is to manage, whose other ends are called far-NAME; PROGRAM is run in the place of questions.
set -euo pipefail
scratch=$1
mount --make-rprivate /
for place in /etc/NetworkManager /run/NetworkManager /var/lib/NetworkManager /run/dbus; do
    mkdir -p "$place"
    mount -t tmpfs tmpfs "$place"
done
mkdir /etc/NetworkManager/system-connections
for profile in "$scratch"/profiles/*; do
    [ ! -e "$profile" ] || install -m 600 "$profile" /etc/NetworkManager/system-connections/
done
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
for nic in ${NICS-}; do
    ip link add "$nic" type veth peer name "far-$nic"
    ip link set "far-$nic" up
    printf '[device-%s]\nmatch-device=interface-name:%s\nmanaged=1\n' "$nic" "$nic" >>/etc/NetworkManager/NetworkManager.conf
done
# A sysfs that cannot be written means that there is no udev to wait for.
[ -z "${NICS-}" ] || mount -t sysfs -o ro sysfs /sys
dbus-daemon --config-file="$scratch/bus.conf" --nofork --nopidfile &
bus=$!
manager=
trap 'kill $manager "$bus" 2>/dev/null; wait' EXIT

# wait_for PID WHAT COMMAND...: until the command succeeds; fails when the process ends, or after 30 s.
wait_for() {
    local pid=$1 what=$2 deadline=$((SECONDS + 30))
    shift 2
    until "$@"; do
        kill -0 "$pid" 2>/dev/null || { echo "$what: the process ended"; exit 1; }
        [ "$SECONDS" -lt "$deadline" ] || { echo "$what: not after 30 s"; exit 1; }
        sleep 0.05
    done
}
running() { [ "$(nmcli -t -f RUNNING general 2>/dev/null)" = running ]; }

wait_for "$bus" "D-Bus socket" test -S /run/dbus/system_bus_socket
/usr/sbin/NetworkManager --debug --config=/etc/NetworkManager/NetworkManager.conf --pid-file="$scratch/pid" \
    >"$scratch/log" 2>&1 &
manager=$!
wait_for "$manager" "NetworkManager running" running
[ -z "${PROGRAM-}" ] || eval "$PROGRAM"
number=0
while IFS= read -r question; do
    eval "nmcli $question" >"$scratch/answer$number" 2>&1 || true
    number=$((number + 1))
done <"$scratch/questions"
