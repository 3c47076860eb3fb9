"""`ci/bench/run oracle`: network documents held against `nmstatectl gc`, for which a script stands in here."""

import yaml

from ci.bench.oracle import networks
from ci.bench.oracle.networks import Verdict
from installer.testing.network.nmstate_compare import generated

ETHERNET = "interfaces: [{name: eno1, type: ethernet, mac-address: 02:AA:00:00:00:01}]\n"
REFUSED = "interfaces: [{name: eno1, type: nonsense}]\n"


def _program(tmp_path, files, code=0):
    document = yaml.safe_dump({"NetworkManager": [[name, text] for name, text in files.items()]})
    path = tmp_path / "nmstatectl"
    path.write_text(f'#!/bin/sh\n[ "$1" = gc ] && [ -s "$2" ] || exit 9\ncat <<\'END\'\n{document}END\nexit {code}\n')
    path.chmod(0o755)
    return path


def test_equal_keyfiles_are_equal_whatever_is_between_a_mac_addresses_bytes(tmp_path):
    files = generated(ETHERNET)[0]
    assert networks.judged(_program(tmp_path, files), ETHERNET) == Verdict(True, True)
    dashes = {name: text.replace("02:AA:00:00:00:01", "02-AA-00-00-00-01") for name, text in files.items()}
    assert dashes != files
    assert networks.judged(_program(tmp_path, dashes), ETHERNET) == Verdict(True, True)


def test_what_differs_is_told_and_what_nothing_explains_is_a_fault(tmp_path):
    other = {name: text.replace("id=eno1", "id=eno2") for name, text in generated(ETHERNET)[0].items()}
    verdict = networks.judged(_program(tmp_path, other), ETHERNET)
    assert "[connection] id: 'eno1' instead of 'eno2'" in verdict.difference
    (line,) = networks.unknown([("one", verdict)])
    assert line.endswith("as in one")
    explained = Verdict(True, True, "keyfiles: eno1.nmconnection [ipv4] address1: None instead of '10.0.0.1/24'")
    assert not list(networks.unknown([("two", explained)]))
    rows = dict(networks.rows([verdict, explained, Verdict(True, True)]))
    assert rows["keyfiles, of those that both take"].split() == ["1", "of", "3", "(", "33.3", "%)"]
    assert rows["  the same, but for what docs/nmstate.md names"].split()[:3] == ["2", "of", "3"]


def test_verdicts(tmp_path):
    taken, refuses = _program(tmp_path, {}), tmp_path / "other"
    assert networks.judged(taken, REFUSED).difference.startswith("refused: interfaces[0].type")
    refuses.mkdir()
    alone = networks.judged(_program(refuses, {}, code=1), ETHERNET)
    assert (alone.theirs_ok, alone.ours_ok) == (False, True)
    assert len(list(networks.unknown([("x", alone)]))) == 1
    assert networks.judged(refuses / "nmstatectl", REFUSED) == Verdict(False, False)


def test_documents_are_the_seeds_and_all_differ_from_another_seeds():
    one, other = networks.documents(60, 1), networks.documents(60, 2)
    assert one == networks.documents(60, 1)
    assert len(one) == 60
    plain = len(networks.DOCUMENTS)
    assert one[:plain] == other[:plain]
    assert one[plain:] != other[plain:]
