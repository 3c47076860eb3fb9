#!/bin/bash
# Shows on the console which of the services that this host needs are not running, or have an image that cannot be
# pulled or run. What is wrong is in sshd's banner too: whoever waits from outside is told before there is a service,
# and without a key.
set -euo pipefail
. /usr/local/bin/common.sh
load_env /etc/assisted/rendezvous-host.env

UNITS=(agent.service)
[ ! -e /etc/assisted/node0 ] || UNITS=(assisted-service.service agent.service)
RUN_DIR=${PATH_PREFIX-}/run/agent-installer
FAILURES=$RUN_DIR/host-config-failures
TROUBLES=(70-agent-services 75-agent-images 76-dns 80-host-config)
# Podman's words for a pull that failed and is tried again, and for one that is given up.
PULL='level=warning msg="Failed, retrying'
PULL+='|^Error: .*(initializing source|choosing (an )?image|copying system image|reading blob|writing blob)'
# Podman's words for an image whose program cannot be started, crun's and runc's.
RUN='^Error: .*OCI (runtime|permission)|^(\{"msg":")?exec (container process|/)|^runc create failed'
RUN+='|[Ee]xec format error'

# The proxy that podman asks, without a password.
proxy=${HTTPS_PROXY:-${https_proxy:-}}
[[ $proxy != *@* ]] || proxy=${proxy%%//*}//${proxy##*@}

# cause TEXT: the cause that stands at the end of podman's words, in front of them where it is a known one. That of the
# first mirror counts: without mirrors' networks the source, which is tried last, fails for reasons of its own.
cause() {
    local text=${1#*Mirrors also failed: [}
    text=${text%%]): *}
    if [[ $text =~ lookup\ ([^ ]+)\ on\ ([^ ]+):53:\ (no\ such\ host|server\ misbehaving)? ]]; then
        if [ -n "${BASH_REMATCH[3]}" ]; then
            printf 'DNS server %s does not know %s: ' "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"
        else
            printf 'DNS server %s does not answer (asked for %s): ' "${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"
        fi
    elif [[ $text =~ unauthorized|authentication\ required|invalid\ username/password ]]; then
        printf 'the registry rejects the pull secret: '
    elif [[ $text =~ x509:\ certificate\ has\ expired ]]; then
        printf "the registry's certificate is out of date, or this clock is wrong: "
    elif [[ $text =~ x509: ]]; then
        printf "the registry's certificate is not trusted here: "
    elif [[ $text =~ manifest\ unknown|name\ unknown ]]; then
        printf 'the registry has no such image: '
    elif [[ $text =~ proxyconnect\ tcp:\ dial\ tcp\ ([^ ]+):\ (connect|i/o) ]]; then
        printf 'the proxy at %s does not answer: ' "${BASH_REMATCH[1]}"
    elif [[ $text =~ dial\ tcp\ ([^ ]+):\ (connect|i/o) ]]; then
        printf 'the registry at %s does not answer: ' "${BASH_REMATCH[1]}"
    fi
}

# image_failure UNIT: the pull or the start that failed, where that is among the last lines that its processes wrote.
image_failure() {
    local index line lines verb why=
    # systemd's words on the unit are another unit's; podman's on what becomes of its container are no output.
    mapfile -t lines < <(journalctl --boot --quiet --output cat --lines 6 "_SYSTEMD_UNIT=$1" _TRANSPORT=stdout || :)
    for index in "${!lines[@]}"; do
        line=${lines[index]}
        if [[ $line =~ $RUN ]]; then
            verb=run
        elif [[ $line =~ $PULL ]] && [ $((${#lines[@]} - index)) -le 2 ]; then
            # One that has been followed by more may have come right; a start says a few lines before it fails again.
            verb="pulled${proxy:+ through the proxy $proxy}"
        else
            continue
        fi
        # crun's line is JSON with the time, by which it would be news at each look.
        [[ ! $line =~ ^\{\"msg\":\"([^\"]+) ]] || line=${BASH_REMATCH[1]}
        line=${line#*Error: }
        why="$verb: $1: $(cause "$line")${line:0:600}"
    done
    printf '%s' "$why"
}

# answers SERVER: whether a DNS server says anything within 3 s, asked for the root's servers.
answers() {
    local status=0 fd
    { exec {fd}<>"/dev/udp/$1/${DNS_PORT:-53}"; } 2>/dev/null || return 1
    printf '\022\064\001\0\0\001\0\0\0\0\0\0\0\0\002\0\001' >&"$fd" || status=1
    [ "$status" = 1 ] || read -r -N 1 -t 3 -u "$fd" _ || status=1
    exec {fd}>&-
    return "$status"
}

# dns_failure: the DNS servers of this host, where none of them answers. Podman takes over a minute to say so.
dns_failure() {
    local file=${PATH_PREFIX-}/etc/resolv.conf server servers=() word
    [ -r "$file" ] || return 0
    while read -r word server _; do
        [ "$word" = nameserver ] || continue
        ! answers "$server" || return 0
        servers+=("$server")
    done <"$file"
    [ ${#servers[@]} = 0 ] || printf 'DNS server %s does not answer%s' "${servers[0]}" "${servers[1]+, nor does ${servers[1]}}"
}

banner() {
    local name text=
    for name in "${TROUBLES[@]}"; do
        [ ! -s "$ISSUE_DIR/$name.issue" ] || text+="install-status: $(<"$ISSUE_DIR/$name.issue")"$'\n'
    done
    mkdir -p "$RUN_DIR"
    printf '%s' "$text" >"$RUN_DIR/banner"
}

# A NIC may have come since this machine was given its name.
[ ! -e "$ISSUE_DIR/62-stranger.issue" ] || tell_stranger

told=() # whose image is on the console
while :; do
    down="" images="" stopped=()
    mapfile -t states < <(systemctl is-active "${UNITS[@]}")
    for index in "${!UNITS[@]}"; do
        [ "${states[index]-}" = active ] && continue
        stopped+=("${UNITS[index]}")
        down+=" ${UNITS[index]}(${states[index]-unknown})"
    done
    if [ -n "$down" ]; then
        issue_set 70-agent-services "Not running:$down. See journalctl -u UNIT."
    else
        issue_clear 70-agent-services
    fi
    # Once the service listens, hosts whose agent runs say the rest to it. A unit is active, too, while it pulls again.
    doubtful=("${stopped[@]}" "${told[@]}")
    every=30
    service_listens || doubtful=("${UNITS[@]}") every=10
    told=()
    for unit in "${doubtful[@]}"; do
        images=$(image_failure "$unit")
        [ -n "$images" ] || continue
        told=("$unit")
        break
    done
    dns=
    [ "$every" = 30 ] || [ -n "$images" ] || dns=$(dns_failure 2>/dev/null)
    if [ -n "$dns" ]; then
        issue_set 76-dns "$dns"
    else
        issue_clear 76-dns
    fi
    if [ -n "$images" ]; then
        issue_set 75-agent-images "Images cannot be $images"
    else
        issue_clear 75-agent-images
    fi
    if [ -s "$FAILURES" ]; then
        issue_set 80-host-config "Host configuration failed: $(<"$FAILURES")"
    else
        issue_clear 80-host-config
    fi
    banner
    # Each look is a process and a question to systemd; on an emulated CPU two in a hundred of it at every 10 s. As long
    # as nobody listens, who waits is to know soon why.
    pause "$every"
done
