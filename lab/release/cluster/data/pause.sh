# shellcheck shell=bash
# Sourced: waiting without a process. On an emulated CPU a fork and an exec cost a tenth of a second, and loops that wait
# took a sixth of the bootstrap host's.

# pause SECONDS
pause() {
    [[ -n ${PAUSE_FD-} ]] || exec {PAUSE_FD}<> <(:)
    read -r -t "$1" -u "$PAUSE_FD" _ || :
}
