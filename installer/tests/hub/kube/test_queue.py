"""The queue of keys: by one thread at a time, once more for what came meanwhile, later and later after failures."""

import threading

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.strategies import sampled_from

from installer.hub.kube.kinds import Key
from installer.hub.kube.queue import FIRST_RETRY, LAST_RETRY, KeyedQueue

A, B, C = (Key("n", name) for name in "abc")
KEYS = sampled_from([A, B, C])


class Queue(RuleBasedStateMachine):
    """A queue against the set of keys that have still to be looked at."""

    def __init__(self):
        super().__init__()
        self.queue = KeyedQueue()
        self.wanted: set[Key] = set()
        self.working: list[Key] = []

    @rule(key=KEYS)
    def add(self, key):
        self.queue.add(key)
        self.wanted.add(key)

    @rule()
    def take(self):
        if self.wanted - set(self.working):
            key = self.queue.take()
            assert key in self.wanted
            assert key not in self.working
            self.wanted.discard(key)
            self.working.append(key)

    @rule(fails=sampled_from([True, False]))
    def give_back(self, fails):
        if self.working:
            key = self.working.pop(0)
            if fails:
                self.queue.failed(key, 1000.0)
            else:
                self.queue.done(key, 1000.0)

    @invariant()
    def nothing_is_lost(self):
        waiting = self.wanted - set(self.working)
        assert len(self.queue) == len(waiting) + len(self.working)


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=60, deadline=None)


def test_waits_grow_to_a_limit_and_begin_anew_after_success():
    queue = KeyedQueue()

    def fail():
        queue.add(A)
        return queue.failed(queue.take())

    waits = [fail() for _ in range(15)]
    assert waits[0] < FIRST_RETRY * 1.3
    assert waits[5] > 10
    assert max(waits) < LAST_RETRY * 1.3
    queue.add(A)
    queue.done(queue.take())
    assert fail() < FIRST_RETRY * 1.3


def test_a_key_comes_back_when_its_time_has_come_but_not_before_a_later_one_that_is_ready():
    queue = KeyedQueue()
    queue.add(A)
    queue.done(queue.take(), 0.05)
    queue.add(B)
    assert [queue.take(), queue.take()] == [B, A]


def test_a_look_in_between_takes_the_later_one_s_place():
    queue = KeyedQueue()
    queue.add(A)
    queue.done(queue.take(), 0.02)
    queue.add(A)
    queue.done(queue.take())
    queue.add(B)
    assert queue.take() == B
    closer = threading.Timer(0.1, queue.close)
    closer.start()
    assert queue.take() is None
