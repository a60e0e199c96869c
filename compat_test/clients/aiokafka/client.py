"""aiokafka: the protocol in Python, with asyncio."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition, __version__
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import for_code

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
from features import Config, Record, Unsupported
from groups import EAGER, SERVER, Description, Member
from report import main

WAIT = 60  # seconds for any one answer


class Client:
    def __init__(self, address):
        self.address = address

    @asynccontextmanager
    async def admin(self):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def create(self, topic, partitions, configs):
        async with self.admin() as admin:
            new = NewTopic(topic, partitions, 1, topic_configs=configs)
            answer = await admin.create_topics([new])
        for _, code, *_ in answer.topic_errors:
            check(code)

    async def partitions(self, topic):
        # All topics: one that is asked for by name may be created.
        async with self.admin() as admin:
            found = [t for t in await admin.describe_topics() if t["topic"] == topic]
        return len(found[0]["partitions"]) if found else 0

    async def delete(self, topic):
        async with self.admin() as admin:
            answer = await admin.delete_topics([topic])
        for _, code, *_ in answer.topic_error_codes:
            check(code)

    async def produce(self, topic, records, codec, idempotent):
        producer = AIOKafkaProducer(
            bootstrap_servers=self.address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        async with producer:
            sent = [
                await producer.send(topic, r.value, r.key, r.partition, r.timestamp, r.headers) for r in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), WAIT)

    def consumer(self, group=None):
        return AIOKafkaConsumer(
            bootstrap_servers=self.address,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
        )

    async def read(self, topic, starts):
        where = {TopicPartition(topic, p): offset for p, offset in starts.items()}
        records = []
        async with self.consumer() as consumer:
            consumer.assign(list(where))
            for partition, offset in where.items():
                consumer.seek(partition, offset)
            for partition, end in (await consumer.end_offsets(list(where))).items():
                while await consumer.position(partition) < end:
                    m = await asyncio.wait_for(consumer.getone(partition), WAIT)
                    records.append(Record(m.partition, m.key, m.value, list(m.headers), m.timestamp, m.offset))
        return records

    async def transact(self, id, topic, records, group, offset, commit):
        async with AIOKafkaProducer(bootstrap_servers=self.address, transactional_id=id) as producer:
            await producer.begin_transaction()
            for r in records:
                await producer.send_and_wait(topic, r.value, r.key, r.partition, r.timestamp)
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
            if commit:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()

    async def read_committed(self, topic, n):
        where = TopicPartition(topic, 0)
        records = []
        async with AIOKafkaConsumer(bootstrap_servers=self.address, isolation_level="read_committed") as consumer:
            consumer.assign([where])
            consumer.seek(where, 0)
            while len(records) < n:
                m = await asyncio.wait_for(consumer.getone(where), WAIT)
                records.append(Record(m.partition, m.key, m.value, list(m.headers), m.timestamp, m.offset))
        return records

    async def earliest(self, topic, partition):
        where = TopicPartition(topic, partition)
        async with self.consumer() as consumer:
            return (await consumer.beginning_offsets([where]))[where]

    async def offset_for_time(self, topic, partition, ms):
        where = TopicPartition(topic, partition)
        async with self.consumer() as consumer:
            return (await consumer.offsets_for_times({where: ms}))[where].offset

    async def configs(self, topic):
        async with self.admin() as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            answers = await admin.describe_configs([resource])
        code, _, _, _, entries = answers[0].resources[0]
        check(code)
        default = 5  # Kafka's ConfigSource.DEFAULT_CONFIG
        return {name: Config(value, source == default) for name, value, _, source, *_ in entries}

    async def alter(self, topic, configs):
        # The request is AlterConfigs, which puts back what it does not name: all that was set has to be said again.
        before = {name: c.value for name, c in (await self.configs(topic)).items() if not c.default}
        async with self.admin() as admin:
            answers = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, before | configs)])
        check(answers[0].resources[0][0])

    async def delete_before(self, topic, partition, offset):
        async with self.admin() as admin:
            await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(offset)})

    async def commit(self, group, topic, partition, offset):
        where = TopicPartition(topic, partition)
        async with self.consumer(group) as consumer:
            consumer.assign([where])
            await consumer.commit({where: offset})

    async def committed(self, group, topic, partition):
        where = TopicPartition(topic, partition)
        async with self.consumer(group) as consumer:
            consumer.assign([where])
            return await consumer.committed(where)

    async def groups(self):
        async with self.admin() as admin:
            return [group for group, *_ in await admin.list_consumer_groups()]

    async def describe(self, group):
        async with self.admin() as admin:
            found = (await admin.describe_consumer_groups([group]))[0].groups[0]
        code, _, _, _, assignor, members, *_ = found
        check(code)
        assignments = [ConsumerProtocolMemberAssignment.decode(m[-1]) for m in members]
        return Description(assignor, [{p.partition for p in a.partitions()} for a in assignments])

    async def reset(self, group, topic, partition, offset):
        await self.commit(group, topic, partition, offset)  # the admin client has no call for it

    async def delete_offset(self, group, topic, partition):
        raise Unsupported("its admin client deletes no offsets")

    async def delete_group(self, group):
        raise Unsupported("its admin client deletes no groups; it does list and describe them")


def check(code):
    """Raises the error of a code in an answer."""
    if code:
        raise for_code(code)


class Awaited:
    """A client whose methods return when they are done."""

    def __init__(self, client):
        self.client, self.loop = client, asyncio.new_event_loop()

    def __getattr__(self, name):
        method = getattr(self.client, name)
        return lambda *arguments: self.loop.run_until_complete(method(*arguments))

    def join(self, group, topic, mode, instance):
        if mode.assignor == SERVER:
            raise Unsupported("it has no protocol of groups but the classic one")
        if mode.assignor != EAGER:
            raise Unsupported("it has no cooperative assignor")
        member = GroupMember(self.loop.run_until_complete)
        member.run(member.join(self.client.address, group, topic, mode, instance))
        return member


class GroupMember(Member, ConsumerRebalanceListener):
    """Members go on in the background while anyone waits for the loop, by run."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    async def join(self, address, group, topic, mode, instance):
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=mode.session_ms,
            heartbeat_interval_ms=1000,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self.consumer.subscribe([topic], listener=self)
        await self.consumer.start()

    async def on_partitions_assigned(self, assigned):
        self.assigned(p.partition for p in assigned)

    async def on_partitions_revoked(self, revoked):
        self.gave([p.partition for p in revoked])

    def poll(self):
        for found in self.run(self.consumer.getmany(timeout_ms=50)).values():
            self.read += [(m.partition, m.offset) for m in found]

    def commit(self):
        self.run(self.consumer.commit())

    def leave(self):
        self.run(self.consumer.stop())


main("aiokafka", __version__, lambda address: Awaited(Client(address)))
