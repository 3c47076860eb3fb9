import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.console import FileConsole, strip_control
from drivers.errors import ConsoleTimeout, DriverError


@pytest.fixture
def console(tmp_path):
    return FileConsole(tmp_path / "n.log", tmp_path / "n.sock", machine="n")


def test_control_sequences_are_stripped():
    raw = "\x1b[2J\x1b[01;01H\x1b[=3h\x1b[0;37;40mWelcome\x1b]0;title\x07 to\r\n\x1b(BGRUB\x08"
    assert strip_control(raw) == "Welcome to\nGRUB"


@pytest.mark.parametrize(
    "raw",
    [
        "a\x9b2Jb", "a\x9d0;title\x07b", "a\x9d0;titl\xe9\x9cb", "a\x1b]0;title\x9cb",
        "a\x9b\x9d\x90\x85b", "a\x7fb", "a\x1bb",
    ],
    ids=range(7),
)  # fmt: skip
def test_a_terminal_gets_no_control_character_of_eight_bits(console, raw):
    assert strip_control(raw) == "ab"
    console.log.write_text(f"{raw} {raw} à")
    assert console.text() == "ab ab à"
    assert console.wait_for("ab", 0)
    assert console.wait_for("ab à", 0)


def test_what_stays_when_sequences_are_taken_out_is_none(console):
    """A character's bytes on both sides of one are no character."""
    console.log.write_bytes(b"a\xc2\x1b[0m\x9b2Jb")
    assert not {chr(code) for code in range(0x80, 0xA0)} & set(console.text())


def test_titles_without_an_end_cost_no_time():
    assert strip_control("\x9d" * 200_000 + "\x1b]" * 200_000) == ""


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cc"])))
def test_plain_text_is_left_alone(text):
    assert strip_control(text) == text


def test_waits_go_on_where_the_last_match_ended(console):
    console.log.write_bytes(b"\x1b[1mboot\x1b[0m one\r\nboot two\r\n")
    assert console.wait_for(r"boot (\w+)", 1)[1] == "one"
    assert console.wait_for(r"boot (\w+)", 1)[1] == "two"
    with pytest.raises(ConsoleTimeout):
        console.wait_for("boot", 0.05)
    assert FileConsole(console.log).wait_for(r"boot (\w+)", 1)[1] == "one"


@given(st.lists(st.sampled_from(["\x1b[0m", "é", "\udcff", "a", "b", "\r\n", "\x1b[2;3H", "go", " "]), max_size=30))
def test_every_match_is_found_once_whatever_stands_between(pieces):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "n.log"
        log.write_bytes("".join(pieces).encode(errors="surrogateescape"))
        console = FileConsole(log)
        wanted = console.text().count("go")
        for _ in range(wanted):
            assert console.wait_for("go", 1).group() == "go"
        with pytest.raises(ConsoleTimeout):
            console.wait_for("go", 0)


def test_non_ascii_is_matched_as_text(console):
    console.log.write_bytes("● ready – ok\n".encode())
    assert console.wait_for("ready (.+) ok", 1)[1] == "–"


def test_bytes_that_are_no_text_do_no_harm(console):
    console.log.write_bytes(b"\xff\xfe go \x80 go")
    assert console.wait_for("go", 1)
    assert console.wait_for("go", 1)


def test_a_growing_file_ends_the_wait(console):
    threading.Timer(0.2, lambda: console.log.write_bytes(b"login:")).start()
    assert console.wait_for("login", 10).group() == "login"


def test_a_wait_goes_on_behind_the_cut_of_a_full_log(console):
    console.log.write_text("x" * 1000)
    console.mark()
    console.log.write_text("full")
    with pytest.raises(ConsoleTimeout):
        console.wait_for("login:", timeout=0)
    with console.log.open("a") as log:
        log.write(" login:")
    assert console.wait_for("login:", timeout=0)


def test_the_error_tells_the_last_lines(console):
    console.log.write_bytes(b"".join(b"line %d\n" % i for i in range(100)))
    with pytest.raises(ConsoleTimeout, match=r"(?s)n: .*line 99") as caught:
        console.wait_for("never", 0)
    assert "line 5\n" not in str(caught.value)


def test_a_wait_that_cannot_succeed_ends_early(tmp_path, monkeypatch):
    console = FileConsole(tmp_path / "n.log", still_possible=lambda: "the machine is off")
    monkeypatch.setattr("drivers.console.CHECK_SECONDS", 0.0)
    with pytest.raises(ConsoleTimeout, match="the machine is off"):
        console.wait_for("never", 3600)


def test_kernel_trouble_is_seen(console):
    console.log.write_bytes(b"fine\n[ 1.0] BUG: soft lockup - CPU#0 stuck for 22s!\nKernel panic - not syncing: x\n")
    assert len(console.trouble()) == 2


def test_sending_types_everything(console):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(console.input_socket))
        server.listen()
        got = []

        def read():
            line, _ = server.accept()
            with line:
                while data := line.recv(3):
                    got.append(data)

        reader = threading.Thread(target=read)
        reader.start()
        console.send("a long line\r")
        reader.join(5)
    assert b"".join(got) == b"a long line\r"


def test_sending_without_a_line_is_an_error(tmp_path):
    with pytest.raises(DriverError, match="cannot be typed on"):
        FileConsole(tmp_path / "n.log").send("x")
    with pytest.raises(DriverError, match="No such file"):
        FileConsole(tmp_path / "n.log", tmp_path / "absent.sock").send("x")
