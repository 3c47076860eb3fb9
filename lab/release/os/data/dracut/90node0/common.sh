# Shared by the scripts of the initramfs; sourced by bash.

# cmdline_value NAME: the last value of NAME= on the kernel's command line, or nothing.
cmdline_value() {
    local word value=
    for word in $(< /proc/cmdline); do
        [[ $word == "$1="* ]] && value=${word#*=}
    done
    printf '%s' "$value"
}

# fatal TEXT: says it where the operator looks, and fails the unit.
fatal() {
    echo "node0: $*" > /dev/kmsg
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

# wait_for_path PATH SECONDS: until udev has made it.
wait_for_path() {
    local deadline=$((SECONDS + $2))
    until [[ -e $1 ]]; do
        ((SECONDS < deadline)) || fatal "waited $2 s for $1; there are: $(echo /dev/disk/by-label/*)"
        sleep 0.05
    done
}
