"""The agent's connections to the service."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from installer.agent import steps
from installer.agent.containers import AgentContext
from installer.agent.loop import Agent
from installer.assisted.auth import Scheme
from installer.assisted.client import AssistedClient
from installer.assisted.endpoint import endpoint
from installer.hostsys.system import HostSystem

HERE = HostSystem(Path("/"))


def test_answers_of_many_steps_share_one_connection() -> None:
    """Each connection costs a handshake, on emulated processors more than all else of the request."""
    opened: list[object] = []
    answered: list[str] = []

    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            opened.append(self)
            super().setup()

        def do_POST(self) -> None:
            answered.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["step_type"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    kinds = [f"step-{number}" for number in range(6)]
    together = threading.Barrier(len(kinds))

    def step(context: steps.StepContext, args: list[str]) -> str:
        together.wait(30)
        return "{}"

    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        client = AssistedClient(endpoint(url), Scheme.AGENT, "t")
        identity = AgentContext(
            url=url, infra_env_id="ie", host_id="h", token="t", ca_file="", insecure=False, agent_image=""
        )
        agent = Agent(
            steps.StepContext(host=HERE, agent=identity, client=client, table=dict.fromkeys(kinds, step)), 1.0
        )
        threads = [agent.start({"step_type": kind, "step_id": kind, "args": []}) for kind in kinds]
        for thread in threads:
            assert thread is not None
            thread.join(30)
        client.close()
        server.shutdown()
    assert sorted(answered) == kinds
    assert len(opened) == 1
