"""The probe for KVM, its verdict and what it may be fooled by."""

import pytest

from lab.host import kvm


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))


def test_the_tiny_guest_runs_where_guests_run():
    """The probe must be able to say yes: under TCG the same guest always does."""
    assert kvm.run_tiny_guest("tcg", deadline=20).usable


def test_an_accelerator_that_is_none_is_unusable():
    assert not kvm.run_tiny_guest("nonsense", deadline=20).usable


def test_an_accelerator_that_is_none_runs_no_firmware():
    verdict = kvm.run_firmware("nonsense", deadline=20)
    assert not verdict.usable
    assert "nonsense" in verdict.reason


@pytest.mark.parametrize(
    ("qemu", "reason"),
    [
        ("echo 'KVM internal error. Suberror: 1'; exec sleep 60", "KVM internal error"),
        ("exec sleep 60", "printed nothing within 1 s"),
        ("exit 3", "ended without output"),
    ],
)
def test_a_guest_that_stops_in_its_firmware_makes_kvm_unusable(tmp_path, monkeypatch, qemu, reason):
    program = tmp_path / "qemu"
    program.write_text(f"#!/bin/sh\n{qemu}\n")
    program.chmod(0o755)
    monkeypatch.setattr(kvm, "QEMU", str(program))
    verdict = kvm.run_firmware("kvm", deadline=1)
    assert not verdict.usable
    assert reason in verdict.reason


def test_a_tiny_guest_alone_proves_too_little(monkeypatch):
    """kvm-pvm runs it, and stops in the firmware."""
    monkeypatch.setattr(kvm.Path, "exists", lambda _self: True)
    monkeypatch.setattr(kvm, "run_tiny_guest", lambda *a: kvm.Verdict(True, "a guest has run"))
    monkeypatch.setattr(kvm, "run_firmware", lambda *a: kvm.Verdict(False, "it stops"))
    assert kvm.probe() == kvm.Verdict(False, "it stops")


def test_the_verdict_is_kept_for_this_boot(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(kvm, "run_tiny_guest", lambda *a: asked.append(a) or kvm.Verdict(False, "x"))
    monkeypatch.setattr(kvm.Path, "exists", lambda _self: True)
    assert kvm.probe() == kvm.probe() == kvm.Verdict(False, "x")
    assert len(asked) == 1
    monkeypatch.setattr(kvm, "rom", lambda: b"another guest")
    kvm.probe()
    assert len(asked) == 2, "a verdict is about the guest that was run"


def test_the_tiny_guest_does_what_firmware_begins_with():
    """kvm-pvm ran one without and stopped at OVMF's third instruction: wait; fninit."""
    code = kvm.rom()[0xFFF0:]
    assert code.startswith(bytes.fromhex("9bdbe3"))
