"""`node0 gather bootstrap` and the words around it."""

import json

import pytest

from installer.cli import main


def test_hosts_that_do_not_answer_are_named(tmp_path, capsys):
    (tmp_path / "auth").mkdir()
    (tmp_path / "auth/kubeconfig").write_text("{}")
    part = {"clusterName": "c", "baseDomain": "d.example", "platform": "none", "expectedHosts": {"controlPlane": 1}}
    (tmp_path / ".openshift_install_state.json").write_text(json.dumps({"node0": part}))
    words = ["gather", "bootstrap", "--bootstrap", "127.0.0.9", "--master", "127.0.0.8", "--dir", str(tmp_path)]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "host bootstrap (127.0.0.9): " in said
    assert "none of 127.0.0.9, 127.0.0.8 answers" in said
    assert not list(tmp_path.glob("*.tar.gz"))


def test_gather_alone_needs_a_kubeconfig(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["gather", "--dest-dir", "x"])
    assert caught.value.code == 2
    assert "--kubeconfig FILE, or the word bootstrap" in capsys.readouterr().err
