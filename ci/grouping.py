"""The distribution of tests by `pytest -n N --dist loadfile`: a module stays in one worker, what takes longest comes
early.

So a module's registry, service or ISO is made once, and so is what the modules of some folders share. Modules of real
labs run side by side as labs of several checkouts do: what is left on the machine is looked for by the lab's own name
or users, and each worker has its own directory of labs (lab/tests/conftest.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from xdist.scheduler import LoadFileScheduling

#: Seconds that modules take, where these are far more than the number of their tests tells. They come early, so that no
#: worker is left alone with one at the end. (xdist itself begins with the modules that have most tests.)
LONG: Mapping[str, float] = {
    "lab/tests/machines/container/fence/test_walls.py": 150,
    "ci/tests/faults/test_swarm_rows.py": 115,
    "lab/tests/machines/container/firmware/test_live_boot.py": 110,
    "lab/tests/machines/test_live_secureboot.py": 90,
    "lab/tests/bmcs/test_contract.py": 88,
    "installer/tests/waitfor/test_bootstrap.py": 49,
    "installer/tests/waitfor/test_causes.py": 31,
    "lab/tests/faults/test_impairments.py": 27,
    "lab/tests/release/cluster/fencing/test_agent.py": 26,
    "installer/tests/agent/test_swarm.py": 25,
    "installer/tests/waitfor/test_install.py": 20,
    "installer/tests/rendezvous/eventloop/test_gate_deadlines.py": 17,
    "installer/tests/orchestrator/test_commands.py": 16,
    "ci/tests/bench/test_oracle_service.py": 8,
    "ci/tests/bench/test_oracle.py": 8,
    "installer/tests/gather/test_gather.py": 14,
    "ci/informer/tests/engine/test_engine.py": 13,
    "ci/informer/tests/test_running.py": 13,
    "lab/tests/machines/container/fence/test_reader.py": 12,
    "ci/tests/halves/test_page_browser.py": 12,
    "lab/tests/release/cluster/test_families.py": 11,
    "lab/tests/machines/container/firmware/test_live_netboot.py": 10,
    "ci/informer/tests/pages/test_pages.py": 10,
    "lab/tests/host/test_process.py": 10,
    "lab/tests/daemons/ipmi/test_ipmi.py": 10,
    "installer/tests/rendezvous/eventloop/test_lag.py": 10,
    "installer/tests/rendezvous/reconcile/test_scale.py": 9,
    "installer/tests/rendezvous/eventloop/test_gate_places.py": 9,
    "installer/tests/common/redact/test_redact.py": 9,
    "installer/tests/rendezvous/api/test_contract.py": 9,
    "lab/tests/subject/test_subject.py": 8,
    "installer/tests/waitfor/test_strangers.py": 8,
    "installer/tests/config/test_state_damage.py": 7,
    "lab/tests/release/cluster/nodes/test_scaling.py": 7,
    "ci/tests/test_gate.py": 7,
    "installer/tests/create/test_stream.py": 7,
    "installer/tests/create/test_initrd.py": 7,
    "ci/informer/tests/test_simulate.py": 6,
    "lab/tests/bmcs/test_clients.py": 6,
    "installer/tests/common/test_secretfiles.py": 6,
    "installer/tests/ignition/test_scripts.py": 6,
    "installer/tests/rendezvous/api/test_live.py": 6,
    "ci/informer/tests/pages/test_serving.py": 6,
    "installer/tests/rendezvous/store/test_survives.py": 6,
    "installer/tests/gather/test_script.py": 6,
    "ci/informer/tests/test_arithmetic.py": 6,
    "ci/tests/suite/test_scheduling.py": 5,
    "installer/tests/agent/checks/test_network.py": 5,
    "installer/tests/agent/test_containers.py": 5,
    "installer/tests/create/test_ended.py": 5,
    "installer/tests/agent/test_loop.py": 5,
    "installer/tests/network/test_properties.py": 4,
    "installer/tests/rendezvous/prepare/test_prepare.py": 4,
    "installer/tests/test_dirlock.py": 4,
    "installer/tests/waitfor/test_live.py": 4,
    "installer/tests/orchestrator/test_not_wanted.py": 4,
    "installer/tests/observe/test_outside.py": 4,
}
#: Folders that stay in one worker as a whole: their tests share what they read of the repository (ci/syntax.py).
TOGETHER = ("ci/tests/house",)
#: Seconds of a test in any other module, and of one in a module with labs.
_EACH, _EACH_LAB = 0.03, 2.0
#: Modules of real labs: named for it, or in the folder of container machines.
LABS = re.compile(r"lab/tests/(?:[\w/]+/)?test_live_|lab/tests/machines/container/(?!firmware/)(?:\w+/)?test_")


class Grouping(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """By file or folder, what takes longest first; every other worker begins with what is not in LONG.

    Much of LONG waits for most of its time: the processors would have little to do while all workers ran such modules.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if module.startswith(f"{folder}/")), module)

    def _seconds(self, scope: str) -> float:
        return LONG.get(scope, (_EACH_LAB if LABS.match(scope) else _EACH) * len(self.workqueue[scope]))

    def _assign_work_unit(self, node: object) -> None:
        others = [scope for scope in self.workqueue if scope not in LONG] if self.nodes.index(node) % 2 else []
        longest = max(others or self.workqueue, key=self._seconds)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Grouping | None:
    """None leaves other ways than loadfile to xdist."""
    return Grouping(config, log) if config.getvalue("dist") == "loadfile" else None
