"""confluent-kafka-python: librdkafka, from Python."""

import os
import sys

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition, libversion, version
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
from features import Config, Record, main

WAIT = 20  # seconds for any one answer


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
        return found.offset


main("confluent-kafka-python", f"{version()} (librdkafka {libversion()[0]})", Client)
