"""A machine is switched on: from the CD to the login, from the disk that was written there, and what falls through."""

from __future__ import annotations

from pathlib import Path

from lab.tests.firmware import kit


def test_the_live_system_comes_up_with_what_ignition_wrote(tmp_path: Path) -> None:
    iso = kit.iso_with(tmp_path, kit.CONFIG)
    with kit.powered(tmp_path / "m", kit.spec(tmp_path, cdrom=str(iso))) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        text = machine.wait_for("proven login:")
    assert "Command line: BOOT_IMAGE=/images/pxeboot/vmlinuz coreos.liveiso=" in text
    assert text.index("not a bootable disk") < text.index("Finished Ignition (files).") < text.index("login:")


def test_an_installed_disk_boots_and_ignition_runs_once(tmp_path: Path) -> None:
    disk = kit.installed(tmp_path, kit.CONFIG)
    machine_spec = kit.spec(tmp_path, disks=kit.disks(vda=disk))
    with kit.powered(tmp_path / "m", machine_spec, vda=disk) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        machine.wait_for("Mark the first boot as complete.")
        text = machine.wait_for("proven login:")
    assert " ignition.firstboot" in text
    assert "Finished Ignition (files)." in text
    # The power was cut; the journal of the root is replayed.
    with kit.powered(tmp_path / "m", machine_spec, vda=disk) as machine:
        machine.wait_for(f"proof: {kit.PROOF}")
        text = machine.wait_for("proven login:")
    assert "ignition.firstboot" not in text
    assert "Ignition (" not in text
