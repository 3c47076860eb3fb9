"""How `pytest -n N --dist loadfile` distributes tests: a module stays in one worker, what takes longest comes first.

So a module's registry, service or ISO is made once, and so is what the modules of some folders share. Modules of real
labs run side by side as labs of several checkouts do: what is left on the machine is looked for by the lab's own name
or users, and each worker has its own directory of labs (lab/tests/conftest.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from xdist.scheduler import LoadFileScheduling

#: Seconds that modules take, where these are far more than the number of their tests tells. They come first, so that no
#: worker is left alone with one at the end. (xdist itself begins with the modules that have most tests.)
LONG: Mapping[str, float] = {
    "ci/tests/faults/test_swarm_rows.py": 115,
    "lab/tests/machines/container/fence/test_walls.py": 150,
    "lab/tests/machines/container/firmware/test_live_boot.py": 110,
    "lab/tests/machines/test_live_secureboot.py": 90,
    "lab/tests/bmcs/test_contract.py": 40,
    "ci/informer/tests/engine/test_engine.py": 25,
    "ci/tests/house": 12,
    "ci/tests/test_matrix.py": 10,
    "installer/tests/create/test_ended.py": 5,
    "installer/tests/create/test_forbidden.py": 4,
    "installer/tests/test_inputs.py": 5,
    "lab/tests/machines/test_disks.py": 4,
    "installer/tests/config/test_state_damage.py": 12,
    "ci/tests/suite/test_scheduling.py": 11,
    "lab/tests/subject/test_subject.py": 7,
    "ci/tests/test_gate.py": 10,
    "installer/tests/create/test_image.py": 7,
    "installer/tests/rendezvous/eventloop/test_lag.py": 7,
    "installer/tests/create/test_stream.py": 6,
    "installer/tests/create/test_outputs.py": 6,
    "installer/tests/create/test_second_runs.py": 10,
    "installer/tests/rendezvous/reconcile/test_orders.py": 4,
    "installer/tests/test_dirlock.py": 6,
    "installer/tests/gather/test_gather.py": 6,
    "installer/tests/network/test_properties.py": 5,
    "installer/tests/agent/test_swarm.py": 5,
    "installer/tests/rendezvous/store/test_survives.py": 5,
    "installer/tests/create/test_initrd.py": 5,
    "installer/tests/rendezvous/reconcile/test_pace.py": 5,
    "installer/tests/iso_tool/test_iso_tool.py": 5,
    "installer/tests/rendezvous/store/test_store.py": 5,
    "ci/tests/test_mutation.py": 4,
    "installer/tests/rendezvous/prepare/test_prepare.py": 4,
    "installer/tests/rendezvous/eventloop/test_gate_places.py": 4,
    "installer/tests/rendezvous/api/test_contract.py": 4,
    "installer/tests/waitfor/test_causes.py": 4,
    "installer/tests/rendezvous/api/test_edges.py": 4,
    "installer/tests/gather/test_script.py": 4,
    "ci/tests/bench/test_oracle.py": 4,
    "installer/tests/redact/test_growth.py": 7,
    "installer/tests/redact/test_redact.py": 12,
}
#: Folders that stay in one worker as a whole: their tests share what they read of the repository (ci/syntax.py).
TOGETHER = ("ci/tests/house",)
#: Seconds of a test in any other module, and of one in a module with labs.
_EACH, _EACH_LAB = 0.03, 2.0
#: Modules of real labs: named for it, or in the folder of container machines.
LABS = re.compile(r"lab/tests/(?:[\w/]+/)?test_live_|lab/tests/machines/container/(?!firmware/)(?:\w+/)?test_")


class Grouping(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """By file or folder, what takes longest first."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if module.startswith(f"{folder}/")), module)

    def _seconds(self, scope: str) -> float:
        return LONG.get(scope, (_EACH_LAB if LABS.match(scope) else _EACH) * len(self.workqueue[scope]))

    def _assign_work_unit(self, node: object) -> None:
        longest = max(self.workqueue, key=self._seconds)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Grouping | None:
    """None leaves other ways than loadfile to xdist."""
    return Grouping(config, log) if config.getvalue("dist") == "loadfile" else None
