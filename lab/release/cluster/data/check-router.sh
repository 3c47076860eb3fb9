#!/bin/bash
# check-router.sh PATH: succeeds when this node's router answers 200. keepalived runs it twice each 3 s, so it needs no
# program but itself: curl took 10 ms of CPU each time, this takes 2.
exec 3<>/dev/tcp/127.0.0.1/1936 || exit
printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
read -r -t 4 -u 3 _ status _ && [[ $status == 200 ]]
