"""The lab's Tang server: the real tangd answers with keys that jose, as clevis asks it, believes."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lab import topology
from lab.daemons import services
from lab.host.preflight import TANGD
from lab.layout import Layout

SHAPE = msgspec.structs.replace(topology.sno(), tang=True)
# As clevis-encrypt-tang does: the server says of itself what it signed; the key with the thumbprint must be the one.
ASKS = """
curl -sSf --retry-connrefused --retry 20 --retry-delay 1 --max-time 30 http://192.168.111.1:7500/adv/$1 > adv
jose fmt --json=adv -g payload -y -o- > keys
jose jwk use -i keys -r -u verify -o verify
jose jws ver -i adv -k verify -a
echo "$(jose jwk thp -i verify -a S256)"
jose jwk use -i keys -r -u deriveKey -o- | jose fmt -j- -Og alg -Su-
curl -sS -o /dev/null -w '%{http_code}' http://192.168.111.1:7500/adv/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
"""


def test_each_labs_keys_are_its_own_and_private(tmp_path: Path) -> None:
    servers = []
    for name in ("one", "two"):
        layout = Layout(tmp_path / name, SHAPE)
        plan = services.prepare(layout, name, None, None).plan
        assert "tang" in {service.name for service in plan.services}
        assert {stat.S_IMODE(path.stat().st_mode) for path in layout.tang.iterdir()} == {0o600}
        assert stat.S_IMODE(layout.tang.stat().st_mode) == 0o700
        servers += json.loads(services.tang_servers(layout))
    assert servers[0]["url"] == "http://192.168.111.1:7500"
    assert servers[0]["thumbprint"] != servers[1]["thumbprint"]
    none = Layout(tmp_path / "none", topology.sno())
    assert "tang" not in {service.name for service in services.prepare(none, "none", None, None).plan.services}
    assert services.tang_servers(none) == ""


def inside(place: str, thumbprint: str, *command: str) -> None:
    """Run in a network namespace with the lab's address: the server, and what asks it."""
    with subprocess.Popen(command) as server:
        try:
            completed = subprocess.run(
                ["sh", "-ec", ASKS, "sh", thumbprint],
                cwd=place, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            print(completed.stdout, completed.stderr)
        finally:
            server.terminate()


@pytest.mark.skipif(shutil.which(TANGD) is None, reason="tang-common is not installed")
def test_who_knows_its_thumbprint_believes_what_it_says(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "lab", SHAPE)
    plan = services.prepare(layout, "sno-1", None, None).plan
    [command] = [service.argv for service in plan.services if service.name == "tang"]
    [server] = json.loads(services.tang_servers(layout))
    thumbprint = server["thumbprint"]
    script = 'ip link set lo up && ip address add 192.168.111.1/24 dev lo && exec "$@"'
    words = json.dumps([str(tmp_path), thumbprint, *command])
    code = f"from lab.tests.daemons.test_tang import inside; inside(*{words})"
    completed = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, "sh", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=150, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert completed.stdout.split()[:3] == [thumbprint, "ECMR", "404"], completed.stdout + completed.stderr
