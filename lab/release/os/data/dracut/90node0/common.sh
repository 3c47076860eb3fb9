# Shared by the scripts of the initramfs; sourced by bash.

# cmdline_value NAME: the last value of NAME= on the kernel's command line, or nothing. Quotes around it are taken off: of
# two boot loaders with the same arguments, GRUB hands them on without quotes, and isolinux with.
cmdline_value() {
    local word value=
    for word in $(< "${CMDLINE:-/proc/cmdline}"); do
        [[ $word == "$1="* ]] && value=${word#*=}
    done
    value=${value#\"}
    printf '%s' "${value%\"}"
}

# A script that ends by errexit says of which command: most programs do not tell who they are.
set -o errtrace
trap 'echo "node0: ${0##*/}, line $LINENO: $BASH_COMMAND: code $?" >&2' ERR

# fatal TEXT: says it where the operator looks, and fails the unit.
fatal() {
    echo "node0: $*" > "${KMSG:-/dev/kmsg}"
    echo "node0: $*" >&2
    exit 1
}

# device_path SPEC: the udev link for LABEL=, UUID=, PARTUUID= or a path.
device_path() {
    case $1 in
        LABEL=*) printf '/dev/disk/by-label/%s' "${1#*=}" ;;
        UUID=*) printf '/dev/disk/by-uuid/%s' "${1#*=}" ;;
        PARTUUID=*) printf '/dev/disk/by-partuuid/%s' "${1#*=}" ;;
        *) printf '%s' "$1" ;;
    esac
}

# wait_for_path PATH SECONDS: until udev has made it. The machine's uptime tells how long that takes: bash's SECONDS
# follow the clock, which may be set meanwhile.
wait_for_path() {
    local up deadline
    read -r up _ < /proc/uptime
    deadline=$((${up%.*} + $2))
    until [[ -e $1 ]]; do
        read -r up _ < /proc/uptime
        ((${up%.*} < deadline)) || fatal "waited $2 s for $1; there are: $(echo /dev/disk/by-label/*)"
        sleep 0.05
    done
}

# fetch_root URL IMAGE WANT: download rootfs.img and compare it with the SHA-256 sum in the file WANT, which this initramfs
# was built with. As in CoreOS, that decides alone: who the server says it is matters to nobody (its CA is not known here).
fetch_root() {
    local found want
    [[ $1 == http:* || $1 == https:* ]] || fatal "coreos.live.rootfs_url=$1: only http and https are known"
    curl --insecure --fail --silent --show-error --location --retry "${FETCH_TRIES:-30}" --retry-delay 2 --retry-connrefused \
        --output "$2" "$1" || fatal "cannot get the root from $1"
    read -r found _ < <(sha256sum "$2")
    want=$(< "$3")
    [[ $found == "$want" ]] || fatal "the root from $1 has the SHA-256 sum $found, this initramfs belongs to $want"
}
