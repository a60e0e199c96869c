"""confluent-kafka-python: librdkafka, from Python."""

import os
import sys

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
    libversion,
    version,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
from features import Config, Record, Unsupported
from groups import COOPERATIVE, SERVER, Description, Member
from report import main

WAIT = 60  # seconds for any one answer


class Client:
    def __init__(self, address):
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})

    def create(self, topic, partitions, configs):
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(WAIT)

    def partitions(self, topic):
        # All topics: one that is asked for by name may be created.
        found = self.admin.list_topics(timeout=WAIT).topics.get(topic)
        return len(found.partitions) if found else 0

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(WAIT)

    def produce(self, topic, records, codec, idempotent):
        producer = Producer(
            {
                "bootstrap.servers": self.address,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
            }
        )
        errors = []
        for r in records:
            producer.produce(
                topic,
                r.value,
                r.key,
                r.partition,
                timestamp=r.timestamp,
                headers=r.headers,
                on_delivery=lambda error, _: error and errors.append(error),
            )
        if producer.flush(WAIT) or errors:
            raise RuntimeError(f"not delivered: {errors}")

    def consumer(self, group="unused"):
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,  # the client wants one even for assigned partitions
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )

    def read(self, topic, starts):
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in starts.items()])
        records, ended = [], set()
        while len(ended) < len(starts):
            message = consumer.poll(WAIT)
            if message is None:
                raise RuntimeError(f"nothing for {WAIT} s after {len(records)} records")
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            elif message.error():
                raise RuntimeError(message.error())
            else:
                records.append(
                    Record(
                        message.partition(),
                        message.key(),
                        message.value(),
                        message.headers() or [],
                        message.timestamp()[1],
                        message.offset(),
                    )
                )
        consumer.close()
        return records

    def transact(self, id, topic, records, group, offset, commit):
        producer = Producer({"bootstrap.servers": self.address, "transactional.id": id})
        producer.init_transactions(WAIT)
        producer.begin_transaction()
        for r in records:
            producer.produce(topic, r.value, r.key, r.partition, timestamp=r.timestamp)
        consumer = self.consumer(group)
        where = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), WAIT)
        consumer.close()
        if commit:
            producer.commit_transaction(WAIT)
        else:
            producer.flush(WAIT)
            producer.abort_transaction(WAIT)

    def read_committed(self, topic, n):
        consumer = self.consumer()  # the client reads committed records unless it is told otherwise
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = []
        while len(records) < n:
            message = consumer.poll(WAIT)
            if message is None:
                raise RuntimeError(f"nothing for {WAIT} s after {len(records)} records")
            if message.error() is None:
                records.append(Record(0, message.key(), message.value(), [], message.timestamp()[1], message.offset()))
        consumer.close()
        return records

    def earliest(self, topic, partition):
        consumer = self.consumer()
        first, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT)
        consumer.close()
        return first

    def offset_for_time(self, topic, partition, ms):
        consumer = self.consumer()
        found = consumer.offsets_for_times([TopicPartition(topic, partition, ms)], WAIT)[0]
        consumer.close()
        return found.offset

    def configs(self, topic):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result(WAIT)
        default = ConfigSource.DEFAULT_CONFIG.value
        return {name: Config(e.value, e.source == default) for name, e in entries.items()}

    def alter(self, topic, configs):
        set_op = AlterConfigOpType.SET
        entries = [ConfigEntry(name, value, incremental_operation=set_op) for name, value in configs.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(WAIT)

    def delete_before(self, topic, partition, offset):
        where = TopicPartition(topic, partition, offset)
        self.admin.delete_records([where])[where].result(WAIT)

    def commit(self, group, topic, partition, offset):
        consumer = self.consumer(group)
        consumer.assign([TopicPartition(topic, partition)])
        done = consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()
        if done[0].error:
            raise RuntimeError(done[0].error)

    def committed(self, group, topic, partition):
        consumer = self.consumer(group)
        found = consumer.committed([TopicPartition(topic, partition)], WAIT)[0]
        consumer.close()
        if found.error:
            raise RuntimeError(found.error)
        return found.offset if found.offset >= 0 else None

    def join(self, group, topic, mode, instance):
        config = {
            "bootstrap.servers": self.address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if instance:
            config["group.instance.id"] = instance
        if mode.assignor == SERVER:
            config["group.protocol"] = "consumer"  # its sessions are the broker's to say
        else:
            config["partition.assignment.strategy"] = mode.assignor
            config["session.timeout.ms"] = mode.session_ms
            config["heartbeat.interval.ms"] = 1000
        return GroupMember(Consumer(config), topic)

    def groups(self):
        return [group.group_id for group in self.admin.list_consumer_groups().result(WAIT).valid]

    def describe(self, group):
        found = self.admin.describe_consumer_groups([group])[group].result(WAIT)
        return Description(
            found.partition_assignor, [{p.partition for p in m.assignment.topic_partitions} for m in found.members]
        )

    def reset(self, group, topic, partition, offset):
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        self.admin.alter_consumer_group_offsets([wanted])[group].result(WAIT)

    def delete_offset(self, group, topic, partition):
        raise Unsupported("its admin client deletes no offsets but with their group")

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(WAIT)


class GroupMember(Member):
    def __init__(self, consumer, topic):
        super().__init__()
        self.consumer = consumer
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: self.assigned(p.partition for p in partitions),
            on_revoke=lambda _, partitions: self.gave([p.partition for p in partitions]),
        )

    def poll(self):
        for message in self.consumer.consume(100, 0.05):
            if message.error():
                raise RuntimeError(message.error())
            self.read.append((message.partition(), message.offset()))

    def commit(self):
        self.consumer.commit(asynchronous=False)

    def leave(self):
        self.consumer.close()


main("confluent-kafka-python", f"{version()} (librdkafka {libversion()[0]})", Client)
