"""The service alone against its specification: schemathesis makes requests, and judges the answers.

The specification is assisted-service's swagger.yaml, which is not ours to ship: its path is given. Schemathesis lives
in an environment of its own in the cache, since its pytest plugin would slow every start of pytest down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ci.bench.measure import timed
from installer.testing.service.service_kit import Standalone, standalone
from lab.host.paths import cache_dir

VERSION = "4.32.5"
SEED = 7
PHASES = "examples,coverage,fuzzing"
HOST_ID = "6f1d2a8e-98b5-4a7e-9a35-0e4b1c7c1f11"


def _program() -> Path:
    """Schemathesis, installed once by pip."""
    place = cache_dir() / f"schemathesis-{VERSION}"
    program = place / "bin/schemathesis"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"schemathesis=={VERSION}"], check=True)
    return program


def _objects(service: Standalone) -> dict[str, str]:
    """Return a cluster, an infra-env and a host, by the names that path parameters have."""
    user, agent = service.api("user"), service.api("agent")
    base = {"name": "ostest", "pull_secret": service.pull_secret, "openshift_version": "4.18"}
    cluster = user.v2_register_cluster({**base, "base_dns_domain": "test.example", "control_plane_count": 1})
    infra_env = user.register_infra_env({**base, "cluster_id": cluster.id})
    agent.v2_register_host(infra_env.id, {"host_id": HOST_ID})
    return {"cluster_id": cluster.id, "infra_env_id": infra_env.id, "host_id": HOST_ID}


def run(spec: Path, examples: int) -> None:
    """Print what does not conform, with `examples` requests an operation at most; SystemExit if anything does not."""
    with tempfile.TemporaryDirectory() as name, standalone(Path(name)) as service:
        headers = {"Authorization": "user", "X-Secret-Key": "agent", "Watcher-Authorization": "watcher"}
        command = [
            *(str(_program()), "run", str(spec.resolve()), "--url", f"{service.url}/api/assisted-install"),
            *(part for key, who in headers.items() for part in ("-H", f"{key}: {service.token(who)}")),
            *("--tls-verify", str(service.ca), "--checks", "not_a_server_error,conforms", "--phases", PHASES),
            *("--max-examples", str(examples), "--seed", str(SEED), "--continue-on-failure", "--mode", "all"),
            *("--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off"),
        ]
        hooks = {"SCHEMATHESIS_HOOKS": "conformity_hooks", "PYTHONPATH": str(Path(__file__).parent)}
        env = {**os.environ, **hooks, "CONFORMITY_IDS": json.dumps(_objects(service))}
        with timed() as clock:
            completed = subprocess.run(command, env=env, cwd=name, capture_output=True, text=True, check=False)
    print(f"\nthe service against {spec.name}: {clock.seconds:.0f} s\n{completed.stdout}{completed.stderr}", flush=True)
    if completed.returncode:
        raise SystemExit(f"schemathesis ended with {completed.returncode}")
