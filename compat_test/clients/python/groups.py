"""What the Python clients do as members of a group (see ../README.md).

Beside what features.py wants of it a client has

    join(group, topic, mode, instance)      a Member, which reads from the earliest offset where nothing is committed
    groups()                                the names that are listed
    describe(group)                         a Description
    reset(group, topic, partition, offset)  commits for a group that has no members
    delete_offset(group, topic, partition)
    delete_group(group)
"""

import select
import subprocess
import sys
import time
from typing import NamedTuple

from features import Unsupported, create, equal, plain, until

WAIT = 120  # seconds for what a group has to come to
EAGER, COOPERATIVE, SERVER = "range", "cooperative-sticky", "by the broker"  # who assigns, and how


class Mode(NamedTuple):
    """How members join."""

    assignor: str = EAGER
    session_ms: int = 45_000  # without a heartbeat; no broker allows less than 6000


class Description(NamedTuple):
    assignor: str
    assignments: list  # a set of partitions for each member


class Member:
    """A consumer: what it owns and has read. A client's subclass says so from its listener and in poll."""

    def __init__(self):
        self.owned = set()  # partitions
        self.revoked = set()  # ever
        self.assignments = 0
        self.read = []  # (partition, offset)
        self.given_at = 0  # how many it had read when it last gave any partition

    def assigned(self, partitions):
        self.assignments += 1
        self.owned.update(partitions)

    def gave(self, partitions):
        self.given_at = len(self.read)
        self.revoked.update(partitions)
        self.owned.difference_update(partitions)

    def poll(self):
        """Takes part in the group, and reads what there is within a moment."""
        ...

    def commit(self):
        """Commits what has been read."""
        ...

    def leave(self):
        ...


class Group:
    """The members of one group, polled in turn: each has to be, to take part in a rebalance."""

    def __init__(self, client, topic, mode=Mode()):
        self.client, self.topic, self.mode = client, topic, mode
        self.name = topic + "-group"
        self.members = []

    def join(self, instance=None):
        member = self.client.join(self.name, self.topic, self.mode, instance)
        self.members.append(member)
        return member

    def leave(self, member):
        self.members.remove(member)
        member.leave()

    def poll(self, what, condition):
        """Polls every member until the condition holds."""
        deadline = time.monotonic() + WAIT
        while not condition():
            if time.monotonic() > deadline:
                owned = [sorted(m.owned) for m in self.members]
                raise TimeoutError(f"{what}: not so after {WAIT} s; the members own {owned}")
            for member in self.members:
                member.poll()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.members:
            self.leave(self.members[-1])


def group_balance(client, topic, mode=Mode()):
    written = filled(client, topic)
    with Group(client, topic, mode) as group:
        members = [group.join() for _ in range(3)]
        group.poll("two partitions each", lambda: [len(m.owned) for m in members] == [2, 2, 2])
        # What one read before the others came is read again by who owns it now: it was not committed.
        group.poll("every record read", lambda: {r for m in members for r in m.read} >= written)
        equal("records that nobody wrote", {r for m in members for r in m.read} - written, set())


def group_new_protocol(client, topic):
    group_balance(client, topic, Mode(SERVER))


def group_join_leave(client, topic):
    create(client, topic, 6, {})
    with Group(client, topic) as group:
        first = group.join()
        group.poll("all for one", lambda: len(first.owned) == 6)
        second = group.join()
        group.poll("half for each", lambda: len(first.owned) == len(second.owned) == 3)
        group.leave(second)
        group.poll("all for one again", lambda: len(first.owned) == 6)


def group_kill(client, topic):
    filled(client, topic)
    with Group(client, topic, VICTIM) as group:
        # A process of its own: this program, in victim.
        arguments = [sys.executable, sys.argv[0], sys.argv[1], "--victim", group.name, topic]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            try:
                equal("it says so when it has committed", bool(select.select([process.stdout], [], [], WAIT)[0]), True)
                equal("what the victim says", process.stdout.readline(), b"committed\n")
                heir = group.join()
                group.poll("half for the heir", lambda: len(heir.owned) == 3)
            finally:
                process.kill()
        group.poll("all for the heir", lambda: len(heir.owned) == 6)
        equal("records read again", heir.read, [])


VICTIM = Mode(session_ms=6000)


def victim(client, group, topic):
    """Joins, commits what there is and says so, then waits to be killed."""
    member = client.join(group, topic, VICTIM, None)
    committed = False
    while True:
        member.poll()
        if committed or len(set(member.read[member.given_at :])) < 60:
            continue
        try:
            member.commit()
            committed = True
            print("committed", flush=True)
        except Exception as e:
            # Where a machine stands still a session may have ended: the member joins anew, and reads all again.
            print(f"not committed: {e}", file=sys.stderr)
            member.given_at = len(member.read)


def group_static(client, topic):
    create(client, topic, 6, {})
    with Group(client, topic) as group:
        first, second = group.join("one"), group.join("two")
        group.poll("half for each", lambda: len(first.owned) == len(second.owned) == 3)
        before, assignments = set(second.owned), first.assignments
        group.leave(second)
        again = group.join("two")
        group.poll("it is back", lambda: again.owned)
        equal("partitions of the member that came back", again.owned, before)
        equal("assignments that the other got", first.assignments, assignments)


def group_cooperative(client, topic):
    create(client, topic, 6, {})
    with Group(client, topic, Mode(COOPERATIVE)) as group:
        first = group.join()
        group.poll("all for one", lambda: len(first.owned) == 6)
        second = group.join()
        group.poll("half for each", lambda: len(first.owned) == len(second.owned) == 3)
        equal("partitions revoked", first.revoked, second.owned)


def group_admin(client, topic):
    written = filled(client, topic)
    with Group(client, topic) as group:
        name = group.name
        member = group.join()
        group.poll("every record read", lambda: set(member.read) == written)
        member.commit()
        equal("listed", name in client.groups(), True)
        equal("description", client.describe(name), Description("range", [member.owned]))
    until(lambda described: not described.assignments, client.describe, name)
    equal("committed", client.committed(name, topic, 0), 10)
    client.reset(name, topic, 0, 1)
    equal("reset", client.committed(name, topic, 0), 1)
    try:
        client.delete_offset(name, topic, 0)
        equal("deleted", client.committed(name, topic, 0), None)
    except Unsupported:
        pass  # they go with the group
    client.delete_group(name)
    equal("listed after its deletion", name in client.groups(), False)


def filled(client, topic):
    """Makes a topic of six partitions with ten records each, and returns where they are: (partition, offset)."""
    create(client, topic, 6, {})
    client.produce(topic, [r for p in range(6) for r in plain(10, p)], "none", False)
    return {(p, offset) for p in range(6) for offset in range(10)}
