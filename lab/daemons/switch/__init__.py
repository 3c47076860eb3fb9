"""The lab's switch: ports that carry tagged networks, and ports that are one (802.3ad and its kin).

A machine's cable that ends in one network without tags is a port of that network's bridge, and no business of the
switch. The others are handed from the cable to bridges by small programs of the kernel's (bpf.py), so that no frame
passes through a process; what a switch has to say itself, LACP, the daemon says (lacp.py). The kernel needs neither
bonding nor 8021q for it.
"""
