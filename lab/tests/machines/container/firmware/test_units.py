"""Units that are started in an initramfs, and their order: systemd's rules as far as such units use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machines.container.firmware.early.stage import units
from lab.machines.container.firmware.early.units import BadUnits, Command

VENDOR, ADMIN, GENERATED = "usr/lib/systemd/system", "etc/systemd/system", "run/systemd/generator"


def put(root: Path, name: str, text: str, directory: str = VENDOR) -> None:
    path = root / directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(root: Path, target: str, name: str, kind: str = "requires", *, directory: str = VENDOR) -> None:
    place = root / directory / f"{target}.{kind}" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(f"../{name}")


def order(root: Path, target: str, *without: str) -> list[str]:
    return [unit.name for unit in units.ordered(units.needed(root, target, without))]


def test_a_target_brings_what_it_names_and_what_is_linked(tmp_path: Path) -> None:
    put(tmp_path, "a.target", "[Unit]\nRequires=b.service\nWants=absent.service\n")
    put(tmp_path, "b.service", "[Unit]\nAfter=c.service d.service\n")
    put(tmp_path, "c.service", "[Unit]\nBefore=d.service b.service\n")
    put(tmp_path, "d.service", "[Unit]\nAfter=a-stranger.service\n")
    link(tmp_path, "a.target", "c.service")
    link(tmp_path, "a.target", "d.service", "wants", directory=GENERATED)
    assert order(tmp_path, "a.target") == ["c.service", "d.service", "b.service", "a.target"]
    assert order(tmp_path, "a.target", "c.service") == ["d.service", "b.service", "a.target"]


def test_a_masked_unit_is_none_and_the_administrators_counts(tmp_path: Path) -> None:
    put(tmp_path, "a.target", "[Unit]\nWants=b.service c.service\n")
    put(tmp_path, "b.service", "[Unit]\nDescription=vendor's\n")
    put(tmp_path, "b.service", "[Unit]\nDescription=administrator's\n", ADMIN)
    put(tmp_path, "c.service", "")
    (tmp_path / ADMIN / "c.service").symlink_to("/dev/null")
    needed = units.needed(tmp_path, "a.target")
    assert list(needed) == ["a.target", "b.service"]
    assert needed["b.service"].description == "administrator's"


def test_units_that_wait_for_each_other_are_named(tmp_path: Path) -> None:
    put(tmp_path, "a.target", "[Unit]\nWants=b.service c.service\n")
    put(tmp_path, "b.service", "[Unit]\nAfter=c.service\n")
    put(tmp_path, "c.service", "[Unit]\nAfter=b.service\n")
    with pytest.raises(BadUnits, match=r"b\.service.*c\.service|c\.service.*b\.service"):
        order(tmp_path, "a.target")


def test_drop_ins_add_and_clear(tmp_path: Path) -> None:
    put(tmp_path, "a.service", "[Unit]\nAfter=x\n[Service]\nExecStart=one \\\n  two\n; comment\nEnvironment=A=1\n")
    put(tmp_path, "a.service.d/10.conf", "[Service]\nExecStart=\nExecStart=-three $A ${A}x '$ A'\n", GENERATED)
    put(tmp_path, "a.service.d/20.conf", "[Service]\nEnvironment='A=b c' B=2\n", ADMIN)
    unit = units.load(tmp_path, "a.service")
    assert unit is not None
    environment = units.environment(unit, tmp_path)
    assert environment == {"A": "b c", "B": "2"}
    assert units.commands(unit, "ExecStart", environment) == [Command(("three", "b", "c", "b cx", "$ A"), True)]
    assert unit.last("Service", "Type", "simple") == "simple"


def test_environment_files(tmp_path: Path) -> None:
    put(tmp_path, "a.service", "[Service]\nEnvironmentFile=/run/env\nEnvironmentFile=-/run/absent\n")
    unit = units.load(tmp_path, "a.service")
    assert unit is not None
    with pytest.raises(BadUnits, match="there is no /run/env"):
        units.environment(unit, tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/env").write_text('# no\nPLATFORM_ID=metal\nB="x y"\nEMPTY=\n')
    assert units.environment(unit, tmp_path) == {"PLATFORM_ID": "metal", "B": "x y", "EMPTY": ""}


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ("", True),
        ("ConditionPathExists=/there", True),
        ("ConditionPathExists=!/there", False),
        ("ConditionPathExists=/absent", False),
        ("ConditionPathExists=|/absent\nConditionKernelCommandLine=|coreos.live.rootfs_url", True),
        ("ConditionPathExists=|/absent\nConditionKernelCommandLine=|absent", False),
        ("ConditionPathExists=/absent\nConditionKernelCommandLine=|coreos.live.rootfs_url", False),
        ("ConditionKernelCommandLine=ignition.firstboot", True),
        ("ConditionKernelCommandLine=ignition", False),
        ("ConditionKernelCommandLine=coreos.live.rootfs_url=http://a", True),
        ("ConditionKernelCommandLine=!coreos.live.rootfs_url=http://b", True),
        ("ConditionPathIsReadWrite=!/there", False),
        ("ConditionDirectoryNotEmpty=/full", True),
        ("ConditionDirectoryNotEmpty=/there", False),
        ("AssertPathExists=/absent", False),
        ("ConditionPathExists=/absent\nConditionPathExists=\n", True),
    ],
)
def test_conditions(tmp_path: Path, conditions: str, holds: bool) -> None:
    (tmp_path / "there").touch()
    (tmp_path / "full/of").mkdir(parents=True)
    put(tmp_path, "a.service", f"[Unit]\n{conditions}\n")
    unit = units.load(tmp_path, "a.service")
    assert unit is not None
    assert units.applies(unit, tmp_path, ["ignition.firstboot", "coreos.live.rootfs_url=http://a"]) is holds


def test_a_condition_that_nobody_thought_of_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.service", "[Unit]\nConditionMoonPhase=full\n")
    unit = units.load(tmp_path, "a.service")
    assert unit is not None
    with pytest.raises(BadUnits, match="ConditionMoonPhase=full"):
        units.applies(unit, tmp_path, [])
