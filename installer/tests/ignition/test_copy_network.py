"""agent-set-host-copy-network-arg.sh: run under a prefix, with a service that learns of the host late."""

import json
import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
DATA = Path(str(resources.files("installer.ignition") / "data"))
SCRIPT = DATA / "interactive/agent-set-host-copy-network-arg.sh"
MAC = "52:54:00:00:00:01"
# Every second question is answered: the host registers later.
CURL = """
echo "$*" >>"$STATE/asked"
case "$*" in
*PATCH*) ;;
*/hosts*) count=$(grep -c /hosts "$STATE/asked"); [ "$count" -gt 1 ] && cat "$STATE/hosts" || echo '[]' ;;
*/infra-envs*) echo '[{"id": "env-1"}]' ;;
esac
"""
LINKS = json.dumps([{"ifname": "lo", "address": "00:00:00:00:00:00"}, {"ifname": "tun0"}, {"address": MAC.upper()}])


def host(identity, mac):
    nics = [{"mac_address": "00:00:00:00:00:00"}, {"mac_address": mac}]
    return {"id": identity, "infra_env_id": "env-1", "inventory": json.dumps({"interfaces": nics})}


def test_a_network_of_the_console_is_copied_and_one_that_was_taken_back_is_not(tmp_path):
    files = {
        "stubs/curl": f"#!/bin/bash\n{CURL}",
        "stubs/ip": f"#!/bin/bash\necho '{LINKS}'\n",
        "usr/local/bin/common.sh": (DATA / "bin/common.sh").read_text(),
        "etc/assisted/rendezvous-host.env": "SERVICE_BASE_URL=https://[fd00::5]:8090/\nUSER_AUTH_TOKEN=tok.en\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}/stubs:{os.environ['PATH']}", "PATH_PREFIX": str(tmp_path), "STATE": str(tmp_path)}
    env = {**os.environ, **variables}
    hosts = [{"id": "new", "infra_env_id": "env-1"}, host("other", "52:54:00:00:00:02"), host("own", MAC)]
    (tmp_path / "hosts").write_text(json.dumps(hosts))
    asked = tmp_path / "asked"

    def run():
        asked.unlink(missing_ok=True)
        subprocess.run(["bash", SCRIPT], env=env, check=True, capture_output=True, timeout=60)
        lines = asked.read_text().splitlines() if asked.exists() else []
        return [line for line in lines if "PATCH" in line]

    assert run() == []
    assert not asked.exists(), "a host whose network was left alone asks nobody"
    profile = tmp_path / "etc/NetworkManager/system-connections/agent-tui-eth0.nmconnection"
    profile.parent.mkdir(parents=True)
    profile.write_text("[connection]\n")
    [line] = run()
    assert "/v2/infra-envs/env-1/hosts/own/installer-args" in line
    assert '--data {"args": ["--copy-network"]}' in line
    profile.unlink()
    [line] = run()
    assert '--data {"args": []}' in line
    assert run() == []
