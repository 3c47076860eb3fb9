"""The loop's measurements of itself, and the order in which it hands out events."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import time

from installer.rendezvous.eventloop import lag
from installer.rendezvous.eventloop.lag import AT_A_TIME, Lag, Selector, Sizes
from installer.testing.service.lag_kit import in_turns


def test_sizes_tell_the_share_and_the_longest() -> None:
    sizes = Sizes()
    assert (sizes.share(0.99), sizes.longest, sizes.turns) == (0.0, 0.0, 0)
    for number in range(1, 1001):
        sizes.note(number / 1000)
    assert (sizes.longest, sizes.turns) == (1.0, 1000)
    for part in (0.01, 0.5, 0.9, 0.99, 1.0):
        assert part <= sizes.share(part) <= part * 2 ** (1 / lag.STEPS) + 0.001
    assert sizes.share(1.0) == 1.0
    for odd in (0.0, 1e-9, 1e-6, 1e9):
        sizes.note(odd)
    assert sizes.longest == 1e9
    assert sizes.share(0.0) <= 1e-6 * 2 ** (1 / lag.STEPS)


def test_a_busy_turn_is_seen_and_a_waiting_one_is_not() -> None:
    def compute() -> None:
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            pass

    async def busy() -> None:
        compute()
        await asyncio.sleep(0)

    async def waiting() -> None:
        await asyncio.sleep(0.1)
        await asyncio.to_thread(compute)

    turns = in_turns(busy)
    assert turns.cpu.longest >= 0.03
    # The two clocks are read one after the other, and do not step alike.
    assert turns.wall.longest > 0.029
    assert in_turns(waiting).cpu.longest < 0.02


def ready_pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Make connected sockets; the first of each has something to read."""
    pairs = [socket.socketpair() for _ in range(count)]
    for _, other in pairs:
        other.send(b"x")
    return pairs


def test_many_events_are_handed_out_a_few_at_a_time_and_none_is_lost() -> None:
    pairs = ready_pairs(2 * AT_A_TIME + 1)
    with Selector(Lag()) as selector:
        keys = [selector.register(mine, selectors.EVENT_READ) for mine, _ in pairs]
        parts = [selector.select(0) for _ in range(3)]
        assert [len(part) for part in parts] == [AT_A_TIME, AT_A_TIME, 1]
        assert {key for part in parts for key, _ in part} == set(keys)
        for mine, _ in pairs[1:]:
            mine.recv(1)
        assert [key for key, _ in selector.select(0)] == [keys[0]]  # found again: it was not read
    for pair in pairs:
        for end in pair:
            end.close()


def test_an_event_of_what_is_no_longer_watched_is_not_handed_out() -> None:
    pairs = ready_pairs(AT_A_TIME + 3)
    with Selector(Lag()) as selector:
        for mine, _ in pairs:
            selector.register(mine, selectors.EVENT_READ)
        first = {key.fd for key, _ in selector.select(0)}
        gone, changed, stays = (mine for mine, _ in pairs if mine.fileno() not in first)
        selector.unregister(gone)
        key = selector.modify(changed, selectors.EVENT_READ, "another reader")
        ready = selector.select(0)
        assert [key.fd for key, _ in ready] == [stays.fileno()]
        again = {key.fd: key for part in (selector.select(0), selector.select(0)) for key, _ in part}
        assert again[changed.fileno()] is key
        assert gone.fileno() not in again
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_connection_with_the_number_of_one_that_was_closed_is_heard() -> None:
    """Among many that are ready one is closed, and the next to come gets its number, in the same turn."""
    heard: list[bytes] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()
        pairs = ready_pairs(5 * AT_A_TIME)
        newcomers: list[socket.socket] = []
        done = loop.create_future()

        def listen(mine: socket.socket) -> None:
            heard.append(mine.recv(9))
            loop.remove_reader(mine)
            done.set_result(None)

        def replace(mine: socket.socket) -> None:
            mine.recv(1)
            if newcomers:
                return
            victim = pairs[-1][0]
            loop.remove_reader(victim)
            newcomer, other = socket.socketpair()
            # Closes the one and gives its number to the other, whatever numbers are free in this process.
            number = os.dup2(newcomer.fileno(), victim.detach())
            newcomer.close()
            newcomers.extend((socket.socket(fileno=number), other))
            loop.add_reader(newcomers[0], listen, newcomers[0])
            newcomers[1].send(b"hello")

        loop.add_reader(pairs[0][0], replace, pairs[0][0])
        for mine, _ in pairs[1:]:
            loop.add_reader(mine, mine.recv, 1)
        await asyncio.wait_for(done, 30)
        for mine, _ in pairs[:-1]:
            loop.remove_reader(mine)
        for end in (*newcomers, *(end for pair in pairs for end in pair)):
            end.close()

    in_turns(use)
    assert heard == [b"hello"]


def test_timers_have_their_turn_among_many_connections() -> None:
    """Forty sockets that are ready at once, each a while's work: who sleeps does not wait for all of them."""
    turns: list[str] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()
        pairs = [socket.socketpair() for _ in range(5 * AT_A_TIME)]

        def work(mine: socket.socket) -> None:
            mine.recv(1)
            turns.append("work")
            loop.call_soon(turns.append, "other") if len(turns) == 1 else None

        for mine, other in pairs:
            loop.add_reader(mine, work, mine)
            other.send(b"x")
        while turns.count("work") < len(pairs):
            await asyncio.sleep(0)
        for pair in pairs:
            loop.remove_reader(pair[0])
            for end in pair:
                end.close()

    in_turns(use)
    assert turns.index("other") <= AT_A_TIME
