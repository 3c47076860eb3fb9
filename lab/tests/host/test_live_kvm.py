"""UEFI's firmware, run as the probe for KVM runs it: it takes seconds of a processor."""

import pytest

from lab.host import kvm

pytestmark = pytest.mark.lab


def test_the_firmware_runs_where_guests_run(tmp_path, monkeypatch):
    monkeypatch.setenv("NODE0_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("NODE0_CACHE", str(tmp_path / "cache"))
    assert kvm.run_firmware("tcg", deadline=120).usable
