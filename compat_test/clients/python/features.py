"""What the Python clients do with topics and records (see ../README.md).

A client is a class whose methods each do one thing with a broker, in the way its own documentation would:

    create(topic, partitions, configs)          configs: {name: value}
    partitions(topic)                           how many the metadata names; 0 when there is no such topic
    delete(topic)
    produce(topic, records, codec, idempotent)  returns when all are acknowledged
    read(topic, starts)                         starts: {partition: offset}; each from there to its end, in order
    earliest(topic, partition)                  an offset
    offset_for_time(topic, partition, ms)       the offset of the first record that is not older
    configs(topic)                              {name: Config}
    alter(topic, configs)                       changes these and no others
    delete_before(topic, partition, offset)
    commit(group, topic, partition, offset)     as a consumer that has assigned the partition to itself
    committed(group, topic, partition)          an offset, or None
    transact(id, topic, records, group, offset, commit)
                                                records, and an offset of partition 0 for the group, in one transaction
    read_committed(topic, n)                    the first records of partition 0 that a reader of committed records gets

They raise what their client raises. The functions below are the features, named and ordered as in ../features.
"""

import time
from typing import NamedTuple, Optional


class Record(NamedTuple):
    partition: int
    key: Optional[bytes]
    value: Optional[bytes]
    headers: list  # of (str, bytes)
    timestamp: int  # milliseconds
    offset: int = -1  # of a record that was read


class Config(NamedTuple):
    value: str
    default: bool  # nobody has set it


class Unsupported(Exception):
    """Raised by a client's method: the client has no such call."""


def create_topic(client, topic):
    create(client, topic, 3, {})


def produce(client, topic):
    create(client, topic, 3, {})
    now = milliseconds()
    records = []
    for p in range(3):
        records += [
            Record(p, b"key %d" % p, b"value", [("h1", b"x"), ("h2", b""), ("h1", b"again")], now),
            Record(p, b"key %d" % p, None, [], now + 1),
            Record(p, None, b"no key", [], now + 2),
            Record(p, b"", b"", [("binary", bytes(range(256)))], now + 3),
        ]
    client.produce(topic, records, "none", False)
    same_records(client.read(topic, {0: 0, 1: 0, 2: 0}), records)


def codec(client, topic, name):
    create(client, topic, 1, {})
    records = plain(100, 0, value="value %04d of many that look the same, the same, the same, the same")
    client.produce(topic, records, name, False)
    same_records(client.read(topic, {0: 0}), records)


def codec_none(client, topic):
    codec(client, topic, "none")


def codec_gzip(client, topic):
    codec(client, topic, "gzip")


def codec_snappy(client, topic):
    codec(client, topic, "snappy")


def codec_lz4(client, topic):
    codec(client, topic, "lz4")


def codec_zstd(client, topic):
    codec(client, topic, "zstd")


def consume_from_start(client, topic):
    create(client, topic, 3, {})
    records = [r for p in range(3) for r in plain(50, p)]
    client.produce(topic, records, "none", False)
    same_records(client.read(topic, {p: client.earliest(topic, p) for p in range(3)}), records)


def resume_by_timestamp(client, topic):
    create(client, topic, 1, {})
    records = plain(10, 0, step=1000)
    client.produce(topic, records, "none", False)
    offset = client.offset_for_time(topic, 0, records[4].timestamp - 500)
    equal("offset of the first record from that time on", offset, 4)
    same_records(client.read(topic, {0: offset}), records[4:])


def list_configs(client, topic):
    create(client, topic, 1, {"retention.ms": "86400000"})
    configs = client.configs(topic)
    equal("retention.ms", configs["retention.ms"], Config("86400000", False))
    equal("cleanup.policy", configs["cleanup.policy"], Config("delete", True))


def alter_configs(client, topic):
    create(client, topic, 1, {"retention.ms": "86400000", "max.message.bytes": "100000"})
    client.alter(topic, {"retention.ms": "3600000"})
    configs = until(lambda c: c["retention.ms"].value != "86400000", client.configs, topic)
    equal("retention.ms", configs["retention.ms"], Config("3600000", False))
    equal("max.message.bytes", configs["max.message.bytes"], Config("100000", False))


def delete_records(client, topic):
    create(client, topic, 1, {})
    records = plain(10, 0)
    client.produce(topic, records, "none", False)
    client.delete_before(topic, 0, 4)
    equal("earliest offset", client.earliest(topic, 0), 4)
    same_records(client.read(topic, {0: 4}), records[4:])


def idempotent(client, topic):
    create(client, topic, 1, {})
    records = plain(1000, 0)
    client.produce(topic, records, "none", True)
    same_records(client.read(topic, {0: 0}), records)


def delete_topic(client, topic):
    create(client, topic, 3, {})
    client.delete(topic)
    equal("partitions", until(lambda n: n == 0, client.partitions, topic), 0)


def commit_resume(client, topic):
    group = topic + "-group"
    create(client, topic, 1, {})
    records = plain(10, 0)
    client.produce(topic, records, "none", False)
    first = client.read(topic, {0: 0})[:5]
    client.commit(group, topic, 0, first[-1].offset + 1)
    offset = client.committed(group, topic, 0)
    equal("committed offset", offset, 5)
    same_records(client.read(topic, {0: offset}), records[5:])


def transaction(client, topic):
    group = topic + "-group"
    create(client, topic, 1, {})
    records = plain(30, 0)
    for i, commit in enumerate([True, False, True]):
        client.transact(topic + "-id", topic, records[10 * i : 10 * (i + 1)], group, 10 + i, commit)
        want = [10, 10, 12][i]  # that of the one that was aborted does not count
        equal("committed offset", until(lambda n: n == want, client.committed, group, topic, 0), want)
    same_records(client.read_committed(topic, 20), records[:10] + records[20:])


def create(client, topic, partitions, configs):
    """Makes a topic, and waits until it is in the metadata."""
    client.create(topic, partitions, configs)
    equal("partitions", until(lambda n: n > 0, client.partitions, topic), partitions)


def until(done, ask, *arguments):
    """Asks until the answer is done, for two minutes: Kafka's controller answers a moment before its brokers know."""
    deadline = time.monotonic() + 120
    while not done(answer := ask(*arguments)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def plain(count, partition, value="value %d", step=1):
    """Records without headers, `step` milliseconds apart."""
    now = milliseconds() - count * step
    return [Record(partition, b"key %d" % i, (value % i).encode(), [], now + i * step) for i in range(count)]


def milliseconds():
    return int(time.time() * 1000)


def equal(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: got {got}, want {want}")


def same_records(got, want):
    """Records are compared by all but their offsets; those of a partition must be in order."""
    got = sorted(got, key=lambda r: r.partition)
    for g, w in zip(got, want):
        equal("record", g._replace(offset=-1), w)
    equal("number of records", len(got), len(want))
