"""A plan of the machines that an image is booted on, made from what their BMCs show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from installer.hub.baremetal.provisioner import Failed
from installer.ipi.record import Record
from installer.ipi.targets import Seen, Target, shown

FORCE = "--force"


class Action(StrEnum):
    """A command's part in one machine."""

    BOOT = "boot"
    FOLLOW = "follow"
    DONE = "done"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Step:
    """A machine's next step, and its reason in words."""

    action: Action
    text: str


def decide(target: Target, seen: Seen | Failed, record: Record, image: str, *, force: bool) -> Step:
    """Return a machine's step; `image` is the path of the image in our URLs."""
    step = record.step(target.name)
    if step == "installed":
        return Step(Action.DONE, "nothing: it was installed by an earlier run")
    if isinstance(seen, Failed):
        return Step(Action.BOOT, f"boot it as soon as its BMC is ready ({seen.message})")
    ours = record.is_ours(seen.image)
    if seen.powered and (step == "started" or (ours and seen.image.endswith(image))):
        return Step(Action.FOLLOW, "follow it: it was started from this image by an earlier run")
    if seen.image and not ours:
        holds = f"its virtual CD drive holds {shown(seen.image)}, which this command has not inserted"
        if not force:
            return Step(Action.REFUSE, f"{holds}: eject it, or give {FORCE} to replace it")
    elif seen.powered and not ours and not force:
        return Step(Action.REFUSE, f"it runs: switch it off, or give {FORCE} to have it restarted")
    parts = ["power off" if seen.powered else "", f"replace {shown(seen.image)}" if seen.image else ""]
    return Step(Action.BOOT, ", ".join([*filter(None, parts), "insert the image", "boot once from CD", "power on"]))


def table(targets: Sequence[Target], steps: Mapping[str, Step], looks: Mapping[str, Seen | Failed]) -> str:
    """Return the plan for a reader: a line for each machine, with no secret in it."""
    lines = []
    for target in targets:
        seen = looks[target.name]
        now = "not ready" if isinstance(seen, Failed) else "on" if seen.powered else "off"
        lines.append(f"{target.name}  BMC {target.address.url}  power {now}: {steps[target.name].text}")
    return "\n".join(lines) + "\n"
