"""The hub's daemons as a lab describes them."""

import pytest

from lab.errors import LabStartError
from lab.hub import controlplane
from lab.hub.controlplane import ControlPlane
from lab.release.stage.errors import ToolMissing


def test_a_host_that_cannot_build_kubernetes_is_an_error_of_the_lab(tmp_path, monkeypatch):
    def build():
        raise ToolMissing("golang-1.19-go", "apt-get install golang-1.19-go")

    monkeypatch.setattr(controlplane, "build_kubernetes", build)
    with pytest.raises(LabStartError, match="apt-get install"):
        ControlPlane(tmp_path / "hub", "127.0.0.1").services()
    assert not (tmp_path / "hub").exists()


def test_an_ipv6_address_is_bracketed_in_urls_only(tmp_path):
    assert ControlPlane(tmp_path, "fd00::1").url == "https://[fd00::1]:6444"
