"""The command line itself: help, flags, exit codes, start-up time, log lines."""

import io
import logging
import os
import re
import subprocess
import sys

import pytest

from installer import logs
from installer.cli import TIMEOUTS, main
from installer.progress import Progress
from installer.testing.create.inputs_kit import AGENT, SNO
from installer.testing.create.inputs_kit import text as yaml_text
from installer.testing.create.registry_kit import MISSING
from installer.testing.forked_kit import forked
from installer.waitfor.settings import Settings

COMMANDS = [
    [],
    ["agent"],
    ["agent", "create"],
    ["agent", "create", "image"],
    ["agent", "wait-for"],
    ["agent", "wait-for", "bootstrap-complete"],
    ["agent", "wait-for", "install-complete"],
    ["version"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "--dir" in out
    assert "--log-level" in out


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["agent", "create", "image", "--help"])
    out = capsys.readouterr().out
    for word in (
        "install-config.yaml",
        "agent-config.yaml",
        "agent.x86_64.iso",
        "auth/kubeconfig",
        "RELEASE_IMAGE_OVERRIDE",
    ):
        assert word in out


def test_help_names_the_times_that_are_waited():
    times = Settings()
    limits = (times.bootstrap, times.initialize, times.initialize_baremetal, times.operators)
    assert re.findall(r"\d+", TIMEOUTS["install-complete"]) == [str(round(limit / 60)) for limit in limits]
    assert TIMEOUTS["bootstrap-complete"] == f"{times.bootstrap / 60:.0f} minutes"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--dir", ".", "agent", "create"],
        ["--log-level", "loud", "version"],
        ["--log", "info", "version"],
        ["agent", "create", "certificates", "--di", "nosuch"],
    ],
)
def test_bad_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    usage, *_, last = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: node0")
    assert last.startswith("level=fatal msg=node0")


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent", "create", "image", "--dir", "MISSING"],
        ["agent", "gather", "--dir", "MISSING"],
        ["iso", "show", "MISSING"],
        ["nmstate", "gc", "MISSING"],
        ["service", "--listen", "MISSING"],
    ],
)
def test_errors_have_one_form(tmp_path, arguments):
    words = [str(tmp_path / "no") if word == "MISSING" else word for word in arguments]
    code, stderr = forked(main, words)
    assert code == 1
    assert stderr.startswith("level=fatal msg=")
    assert len(stderr.splitlines()) == 1


def test_a_directory_that_is_not_there(tmp_path, capsys):
    assert main(["agent", "create", "image", "--dir", str(tmp_path / "no")]) == 1
    err = capsys.readouterr().err
    assert "no such directory" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("level", ["trace", "DEBUG", "Info", "warning", "warn", "fatal", "panic"])
def test_log_levels_by_all_names_of_logrus(tmp_path, capsys, level):
    """openshift-install leaves them to logrus, which has seven, and takes them in any case."""
    assert main(["agent", "graph", "--dir", str(tmp_path), "--log-level", level]) == 0
    assert "digraph" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--dir", ""], ["--dir="]])
def test_an_empty_directory_name_is_not_the_current_directory(tmp_path, capsys, monkeypatch, arguments):
    """As of a variable that is not set: configs here would be consumed."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["agent", "create", "certificates", *arguments])
    assert caught.value.code == 2
    assert "argument --dir: must not be empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_template_makes_its_directory(tmp_path):
    """As openshift-install does."""
    assert main(["agent", "create", "agent-config-template", "--dir", str(tmp_path / "new/deep")]) == 0
    assert (tmp_path / "new/deep/agent-config.yaml").exists()


def test_an_empty_state_as_go_writes_it(tmp_path, capsys):
    """`null` is an empty map to Go."""
    (tmp_path / ".openshift_install_state.json").write_text("null")
    assert main(["agent", "create", "certificates", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().err.startswith("level=info")


@pytest.mark.parametrize("target", ["bootstrap-complete", "install-complete"])
def test_wait_for_without_an_image(tmp_path, capsys, target):
    assert main(["agent", "wait-for", target, "--dir", str(tmp_path)]) == 1
    assert ".openshift_install_state.json" in capsys.readouterr().err


def test_flags_before_and_behind(tmp_path, capsys):
    assert main(["--dir", str(tmp_path), "agent", "create", "image", "--log-level", "error"]) == 1
    assert f"{tmp_path}/install-config.yaml does not exist" in capsys.readouterr().err


def test_a_release_that_is_no_image_name(capsys, monkeypatch, tmp_path):
    (tmp_path / "install-config.yaml").write_text(yaml_text(SNO))
    (tmp_path / "agent-config.yaml").write_text(yaml_text(AGENT))
    for override in ("a\nb", "a b", "a\x1b[31m", "\u00e9", "a\udcff"):
        monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", override)
        listen = ["service", "--dir", str(tmp_path / "service"), "--listen", "127.0.0.1:8090"]
        for command in (["version"], ["agent", "create", "image", "--dir", str(tmp_path)], listen):
            assert main(command) == 1
            captured = capsys.readouterr()
            last = captured.err.splitlines()[-1]
            assert last.endswith(f"OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE: {override!a} is not the name of an image")
            assert "release image" not in captured.out
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", " r.example/x@sha256:1\n")
    assert main(["version"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "release image r.example/x@sha256:1",
        "release architecture unknown",
    ]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_without_a_release_it_says_where_to_name_one(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "install-config.yaml").write_text(yaml_text(SNO))
    (tmp_path / "agent-config.yaml").write_text(yaml_text(AGENT))
    for target in ("image", "cluster-manifests"):
        assert main(["agent", "create", target, "--dir", str(tmp_path)]) == 1
        stderr = capsys.readouterr().err.splitlines()[-1]
        assert "say in the environment variable OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE which release" in stderr


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_manifests_are_made_where_the_release_cannot_be_read(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE", f"127.0.0.1:9/r@sha256:{'1' * 64}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "install-config.yaml").write_text(yaml_text(SNO))
    (tmp_path / "agent-config.yaml").write_text(yaml_text(AGENT))
    assert main(["agent", "create", "image", "--dir", str(tmp_path)]) == 1
    assert "cannot read image 127.0.0.1:9/r" in capsys.readouterr().err
    assert main(["agent", "create", "cluster-manifests", "--dir", str(tmp_path)]) == 0
    assert "No registry with 127.0.0.1:9/r@sha256:1111" in capsys.readouterr().err
    image_set = (tmp_path / "cluster-manifests/cluster-image-set.yaml").read_text()
    assert f"releaseImage: 127.0.0.1:9/r@sha256:{'1' * 64}" in image_set


@pytest.mark.parametrize("words", [["version"], ["--version"], ["--dir", ".", "--version"]])
def test_version(capsys, words):
    code: object = None
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    assert code == 0
    name, commit, image, architecture = capsys.readouterr().out.splitlines()
    assert name.startswith("node0 ")
    # Scripts take the commit as the fourth word, the image as the third.
    assert re.fullmatch(r"built from commit [0-9a-f]{40}", commit)
    assert image.startswith("release image ")
    assert architecture == "release architecture amd64"


def test_help_of_a_command(capsys):
    for words, named in (
        (["help"], "COMMAND"),
        (["help", "agent", "create"], "node0 agent create"),
        (["help", "swarm"], "node0 swarm"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert named in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["help", "nope"])
    assert ended.value.code == 2


def test_bash_completes_command_lines(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    assert "complete" in capsys.readouterr().out
    line = "node0 agent create pxe"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words")}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    subprocess.run([sys.executable, "-m", "installer"], env={**os.environ, **asked}, timeout=60, check=True)
    assert (tmp_path / "words").read_text().strip() == "pxe-files"


def test_swarm_has_options_of_its_own(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--dir", ".", "swarm"])
    assert ended.value.code == 2
    assert "swarm takes no option in front of it" in capsys.readouterr().err


def test_starts_light():
    """Imports take the time of a start: --help loads nothing heavy, and little in all."""
    code = "import sys; from installer.cli import parser; parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"yaml", "cryptography", "kubernetes", "aiohttp", "requests", "jwt", "msgspec", "asyncio"} & set(loaded)
    bare = subprocess.run([sys.executable, "-c", "import sys, argparse, json, logging, pathlib; print(*sys.modules)"],
                          check=True, capture_output=True, text=True).stdout.split()  # fmt: skip
    ours = {name for name in set(loaded) - set(bare) if name.startswith("installer")}
    assert len(ours) <= 21, sorted(ours)
    assert len(set(loaded) - set(bare) - ours) <= 25, sorted(set(loaded) - set(bare) - ours)


def test_log_lines(tmp_path):
    stream = io.StringIO()
    logs.set_up("info", tmp_path, stream)
    log = logging.getLogger("installer.test")
    log.debug("quiet %s", 1)
    log.info('with "quotes" and\nlines')
    log.warning("plain")
    assert stream.getvalue() == 'level=info msg=with "quotes" and lines\nlevel=warning msg=plain\n'
    file = (tmp_path / ".openshift_install.log").read_text().splitlines()
    assert [line.partition(" ")[2] for line in file] == [
        'level=debug msg="quiet 1"',
        'level=info msg="with \\"quotes\\" and\\nlines"',
        "level=warning msg=plain",
    ]
    assert all(line.startswith('time="20') for line in file)
    logs.set_up("info", None, stream)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_for_terminals_only():
    with Progress("Reading", 4_000_000, plain := io.StringIO()) as bar:
        bar.add(1_000_000)
    assert plain.getvalue() == ""
    with Progress("Reading", 4_000_000, shown := Terminal()) as bar:
        bar.add(1_000_000)
        assert shown.getvalue() == "\rReading: 1 of 4 MB (25%)"
        bar.add(1_000_000)  # at once: not worth a line
    assert shown.getvalue().endswith("\r" + " " * 24 + "\r")
    assert shown.getvalue().count("Reading") == 1


def test_terminal_lines():
    stream = Terminal()
    logs.set_up("info", None, stream)
    logging.getLogger("installer.test").error("x")
    logging.getLogger("installer.test").warning("y")
    assert stream.getvalue() == "\x1b[31mERROR\x1b[0m x\n\x1b[33mWARNING\x1b[0m y\n"


MESSAGE = "pull failed: proxy http://u:s3cr3t-Pr0xy@p:1 said 407, password: hunter2x"


def test_no_line_of_a_log_holds_a_secret(tmp_path) -> None:
    """On the screen, on the pipe, in the file; what is meant for the screen alone is on the screen alone."""
    (tmp_path / "dir").mkdir()
    stream = io.StringIO()
    logs.set_up("info", tmp_path / "dir", stream)
    log = logging.getLogger("installer.test")
    log.error(MESSAGE)
    log.info("with password: %s", '"kubeadmin-w0rd"', extra={"secret": True})
    logs.set_up("error", None, io.StringIO())
    kept = (tmp_path / "dir/.openshift_install.log").read_text()
    for text in (stream.getvalue(), kept):
        assert "s3cr3t" not in text
        assert "hunter2x" not in text
        assert "pull failed: proxy http://u:[redacted]@p:1 said 407" in text
    assert "kubeadmin-w0rd" in stream.getvalue()
    assert "kubeadmin-w0rd" not in kept


@pytest.mark.parametrize("how", ["logging.error", "logging.exception", "raise", "thread"])
def test_no_line_of_a_journal_holds_a_secret(how: str) -> None:
    code = f"""
import logging, threading
from installer import logs
logs.to_journal("%(levelname)s %(message)s")
said = {MESSAGE!r}
def fail():
    raise RuntimeError(said)
match {how!r}:
    case "logging.error":
        logging.error(said)
    case "logging.exception":
        try:
            fail()
        except RuntimeError:
            logging.exception("failed")
    case "raise":
        fail()
    case "thread":
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pull failed" in done.stderr
    assert "s3cr3t" not in done.stderr
    assert "hunter2x" not in done.stderr
