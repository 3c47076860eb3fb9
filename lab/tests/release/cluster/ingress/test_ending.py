"""The end of the ingress controller."""

import threading
import time
from types import SimpleNamespace

from lab.release.cluster.ingress import command
from lab.release.cluster.ingress.health import Health


class Idle:
    """An API without objects, in which nothing happens."""

    def watch(self, api_version, kind, stop, **_):
        yield {}
        stop.wait()


def test_a_controller_at_rest_ends_at_once():
    stop, rested = threading.Event(), threading.Event()
    controller = SimpleNamespace(problem="", step=lambda state: rested.set())
    thread = threading.Thread(target=command.run, args=(Idle(), controller, Health(), stop), daemon=True)
    thread.start()
    assert rested.wait(10)
    began = time.monotonic()
    stop.set()
    thread.join(command.ROUND_SECONDS)
    assert time.monotonic() - began < command.ROUND_SECONDS / 2
