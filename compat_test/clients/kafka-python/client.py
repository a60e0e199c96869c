"""kafka-python: the protocol in Python alone."""

import os
import queue
import sys
import threading

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, __version__
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, NoError

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
from features import Config, Record, Unsupported
from groups import COOPERATIVE, SERVER, Description, Member
from report import main

WAIT = 60  # seconds for any one answer


class Client:
    def __init__(self, address):
        self.address = address
        self.admin = KafkaAdminClient(bootstrap_servers=address)

    def create(self, topic, partitions, configs):
        self.admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)], wait_for_metadata=True)

    def partitions(self, topic):
        # All topics: one that is asked for by name may be created.
        found = [t for t in self.admin.describe_topics() if t["name"] == topic]
        return len(found[0]["partitions"]) if found else 0

    def delete(self, topic):
        self.admin.delete_topics([topic])

    def produce(self, topic, records, codec, idempotent):
        producer = KafkaProducer(
            bootstrap_servers=self.address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        sent = [producer.send(topic, r.value, r.key, r.headers, r.partition, r.timestamp) for r in records]
        producer.flush(WAIT)
        for s in sent:
            s.get(WAIT)
        producer.close()

    def consumer(self, group=None):
        return KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
        )

    def read(self, topic, starts):
        consumer = self.consumer()
        where = {TopicPartition(topic, p): offset for p, offset in starts.items()}
        consumer.assign(list(where))
        for partition, offset in where.items():
            consumer.seek(partition, offset)
        ends = consumer.end_offsets(list(where))
        records = []
        while any(consumer.position(p) < end for p, end in ends.items()):
            polled = consumer.poll(timeout_ms=WAIT * 1000)
            if not polled:
                raise RuntimeError(f"nothing for {WAIT} s after {len(records)} records")
            for found in polled.values():
                records += [Record(m.partition, m.key, m.value, list(m.headers), m.timestamp, m.offset) for m in found]
        consumer.close()
        return records

    def transact(self, id, topic, records, group, offset, commit):
        producer = KafkaProducer(bootstrap_servers=self.address, transactional_id=id)
        producer.init_transactions()
        producer.begin_transaction()
        for r in records:
            producer.send(topic, r.value, r.key, r.headers, r.partition, r.timestamp)
        producer.flush(WAIT)
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}, group)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        producer.close()

    def read_committed(self, topic, n):
        consumer = KafkaConsumer(bootstrap_servers=self.address, isolation_level="read_committed")
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        records = []
        while len(records) < n:
            polled = consumer.poll(timeout_ms=WAIT * 1000)
            if not polled:
                raise RuntimeError(f"nothing for {WAIT} s after {len(records)} records")
            for found in polled.values():
                records += [Record(m.partition, m.key, m.value, list(m.headers), m.timestamp, m.offset) for m in found]
        consumer.close()
        return records

    def earliest(self, topic, partition):
        consumer = self.consumer()
        where = TopicPartition(topic, partition)
        found = consumer.beginning_offsets([where])[where]
        consumer.close()
        return found

    def offset_for_time(self, topic, partition, ms):
        consumer = self.consumer()
        where = TopicPartition(topic, partition)
        found = consumer.offsets_for_times({where: ms})[where]
        consumer.close()
        return found.offset

    def configs(self, topic):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: Config(c["value"], c["config_source"] == "DEFAULT_CONFIG") for name, c in found.items()}

    def alter(self, topic, configs):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        result = self.admin.alter_configs([resource])["topic"][topic]
        if result != "OK":
            raise RuntimeError(result)

    def delete_before(self, topic, partition, offset):
        self.admin.delete_records({TopicPartition(topic, partition): offset})

    def commit(self, group, topic, partition, offset):
        consumer = self.consumer(group)
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.commit({where: OffsetAndMetadata(offset, "", -1)})
        consumer.close()

    def committed(self, group, topic, partition):
        consumer = self.consumer(group)
        found = consumer.committed(TopicPartition(topic, partition))
        consumer.close()
        return found

    def join(self, group, topic, mode, instance):
        if mode.assignor == SERVER:
            raise Unsupported("it has no protocol of groups but the classic one")
        consumer = KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=[CooperativeStickyAssignor if mode.assignor == COOPERATIVE else RangePartitionAssignor],
            session_timeout_ms=mode.session_ms,
            heartbeat_interval_ms=1000,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        return GroupMember(consumer, topic)

    def groups(self):
        return [group["group_id"] for group in self.admin.list_groups()]

    def describe(self, group):
        found = self.admin.describe_groups([group])[group]
        return Description(
            found["protocol_data"],
            [{p for t in m["member_assignment"]["assigned_partitions"] for p in t["partitions"]} for m in found["members"]],
        )

    def reset(self, group, topic, partition, offset):
        where = TopicPartition(topic, partition)
        check(self.admin.alter_group_offsets(group, {where: OffsetAndMetadata(offset, "", -1)})[where])

    def delete_offset(self, group, topic, partition):
        where = TopicPartition(topic, partition)
        check(self.admin.delete_group_offsets(group, [where])[where])

    def delete_group(self, group):
        self.admin.delete_groups([group])


def check(error):
    """Raises what an answer says of one partition, an error's class."""
    if error is not NoError:
        raise error()


class GroupMember(Member, ConsumerRebalanceListener):
    """A member that a thread of its own polls. A poll waits for the group while it is joined, so that members which are
    polled in turn keep each other from it; and one that ends before may leave the join undone for good."""

    def __init__(self, consumer, topic):
        super().__init__()
        self.consumer = consumer
        self.leaving, self.wanted, self.committed = threading.Event(), threading.Event(), queue.Queue()
        consumer.subscribe([topic], listener=self)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while not self.leaving.is_set():
            for found in self.consumer.poll(timeout_ms=1000).values():
                self.read += [(m.partition, m.offset) for m in found]
            if self.wanted.is_set():
                self.wanted.clear()
                try:
                    self.consumer.commit()
                    self.committed.put(None)
                except KafkaError as e:
                    self.committed.put(e)
        self.consumer.close()

    def on_partitions_assigned(self, assigned):
        self.assigned(p.partition for p in assigned)

    def on_partitions_revoked(self, revoked):
        self.gave([p.partition for p in revoked])

    def poll(self):
        self.thread.join(0.05)
        if not self.thread.is_alive():
            raise RuntimeError("the member's thread has ended")

    def commit(self):
        self.wanted.set()
        error = self.committed.get(timeout=WAIT)
        if error is not None:
            raise error

    def leave(self):
        self.leaving.set()
        self.thread.join(WAIT)


main("kafka-python", __version__, Client)
