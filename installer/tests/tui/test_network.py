"""A network edited on the console and taken back, in a NetworkManager of its own."""

import json
import os
import subprocess
import sys

import pytest

from installer.testing.network.network_manager import DAEMON, why_not
from installer.tui.keyfiles import OFF, STATIC

pytestmark = pytest.mark.skipif(bool(why_not(daemon=True)), reason=why_not(daemon=True))
# Edits, each followed by what the host has then.
EDITS = """
import json, sys
from installer.tui import host, network
from installer.tui.keyfiles import Network

for line in sys.stdin:
    edit = json.loads(line)
    complaint = network.apply(Network(**edit)) if edit else network.take_back()
    addresses = {nic.name: nic.addresses for nic in host.nics() if not nic.name.startswith("far-")}
    profiles = sorted(file.name for file in network.FOLDER.iterdir())
    print(json.dumps([complaint, addresses, profiles, host.gateways(), network.can_take_back()]))
"""


def test_an_edit_is_in_place_at_once_and_taken_back_with_the_profiles_it_replaced(tmp_path):
    good = {"nic": "eth0", "ipv4": STATIC, "address4": "10.1.0.2/24", "gateway4": "10.1.0.1", "ipv6": OFF}
    edits: list[dict[str, str]] = [good, {**good, "address4": "10.77.0.2/24", "gateway4": ""}, {}]
    (tmp_path / "edits.py").write_text(EDITS)
    (tmp_path / "edits").write_text("".join(f"{json.dumps(edit)}\n" for edit in edits))
    (tmp_path / "questions").touch()
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/NetworkManager").symlink_to("/etc/NetworkManager")
    program = f"{sys.executable} {tmp_path}/edits.py <{tmp_path}/edits >{tmp_path}/said"
    variables = {"NICS": "eth0 eth1", "PROGRAM": program, "PATH_PREFIX": f"{tmp_path}/root", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--", "bash", DAEMON, tmp_path],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    first, second, third = map(json.loads, (tmp_path / "said").read_text().splitlines())
    profile = ["agent-tui-eth0.nmconnection"]
    assert first == ["", {"eth0": ["10.1.0.2/24"], "eth1": []}, profile, [["10.1.0.1", "eth0"]], True]
    assert second == ["", {"eth0": ["10.77.0.2/24"], "eth1": []}, profile, [], True]
    assert third == [*first[:4], False]
