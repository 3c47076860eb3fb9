"""ARP between two network namespaces, and what is made of frames."""

import subprocess
import sys
import textwrap

from hypothesis import given
from hypothesis import strategies as st

from installer.agent.checks import arp

MAC = bytes.fromhex("525400000001")


@given(st.binary(max_size=80))
def test_any_frame_is_either_a_reply_or_nothing(frame):
    answer = arp.answer(frame)
    assert answer is None or len(frame) >= 42


def test_a_request_turned_round_is_an_answer():
    frame = bytearray(arp.request(MAC, "192.0.2.1", "192.0.2.2"))
    assert arp.answer(bytes(frame)) is None
    frame[21] = arp.REPLY
    assert arp.answer(bytes(frame)) == ("192.0.2.1", "52:54:00:00:00:01")


def test_scan_finds_who_is_there_and_nobody_else():
    """The kernel of a second namespace answers for its two addresses over a veth pair; the third is free."""
    script = """
    set -e
    unshare -n sleep 60 & peer=$!
    trap 'kill $peer' EXIT
    until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
    ip link add here type veth peer name there
    ip link set there netns $peer
    nsenter -t $peer -n ip link set there address 52:54:00:00:00:02 up
    nsenter -t $peer -n ip address add 192.0.2.2/24 dev there
    nsenter -t $peer -n ip address add 192.0.2.3/24 dev there
    ip link set here up
    "$0" -c 'from installer.agent.checks import arp
    arp.ROUND_SECONDS = 0.5  # the other end is a kernel that has nothing else to do
    for source in ("0.0.0.0", "192.0.2.1"):
        print(sorted(arp.scan("here", source, ["192.0.2.2", "192.0.2.3", "192.0.2.4"], rounds=2).items()))'
    """
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", textwrap.dedent(script), sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = "[('192.0.2.2', '52:54:00:00:00:02'), ('192.0.2.3', '52:54:00:00:00:02')]"
    assert done.stdout.splitlines() == [expected] * 2, done.stderr
