// Confluent's client for Node, librdkafka underneath:
//
//   node client.js ADDRESS PREFIX
//
// Admin and producer are those that look like KafkaJS. Consumers of that kind are always members of a group; one that
// assigns partitions itself is the KafkaConsumer of the package's other half.
'use strict'

const { KafkaJS, KafkaConsumer } = require('@confluentinc/kafka-javascript')
const { version, librdkafka } = require('@confluentinc/kafka-javascript/package.json')
const { promisify } = require('node:util')
const { Unsupported, report, same, until, numbers } = require('../node/report')
const { groupFeatures } = require('../node/groups')
const { transaction } = require('../node/transactions')
const { joining, describing } = require('./groups')

const [address, prefix] = process.argv.slice(2)
const kafka = new KafkaJS.Kafka({ kafkaJS: { brokers: [address], logLevel: KafkaJS.logLevel.ERROR } })
const admin = kafka.admin()
const timeout = 60_000 // ms that an answer may take: 5000 when an admin's call does not say

// topic makes a topic of this run and returns its name.
async function topic(suffix, numPartitions = 1, configEntries = []) {
  const name = `${prefix}-${suffix}`
  await admin.createTopics({ topics: [{ topic: name, numPartitions, replicationFactor: 1, configEntries }], timeout })
  await until(`metadata of ${name}`, async () => (await admin.listTopics({ timeout })).includes(name))
  return name
}

// send writes messages with a producer of its own. It gets copies, for send changes what it is given.
async function send(topic, messages, config = {}) {
  const producer = kafka.producer({ kafkaJS: { acks: -1, ...config } })
  await producer.connect()
  try {
    await producer.send({ topic, messages: messages.map(message => ({ ...message })) })
  } finally {
    await producer.disconnect()
  }
}

// consuming connects a consumer without members, calls use with it and ends it.
async function consuming(use, config = {}) {
  const consumer = new KafkaConsumer(
    { 'bootstrap.servers': address, 'group.id': `${prefix}-none`, 'enable.auto.commit': false, 'enable.partition.eof': true, ...config },
    { 'auto.offset.reset': 'earliest' },
  )
  consumer.on('event.error', error => console.error(error.message))
  await promisify(consumer.connect.bind(consumer))({})
  try {
    return await use(consumer)
  } finally {
    await promisify(consumer.disconnect.bind(consumer))()
  }
}

// readToEnd assigns places, {topic, partition, offset}, and returns the records from there to the ends. A place without
// an offset is where the group has committed, or the start.
async function readToEnd(consumer, places) {
  const records = []
  let ends = 0
  consumer.on('partition.eof', () => ends++)
  consumer.assign(places)
  await until('the end of each partition', async () => {
    const got = await promisify(consumer.consume.bind(consumer))(100)
    records.push(...got.map(plain))
    return ends === places.length
  })
  return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
}

// readAll returns the records of the first partitions of a topic.
const readAll = (topic, partitions = 1) =>
  consuming(consumer => readToEnd(consumer, numbers(partitions).map(partition => ({ topic, partition, offset: 0 }))))

// plain shows a record with texts instead of buffers.
function plain({ partition, offset, timestamp, key, value, headers = [] }) {
  const text = buffer => buffer?.toString() ?? null
  const pairs = headers.map(header => Object.entries(header)[0]).map(([name, value]) => [name, text(value)])
  return { partition, offset, timestamp, key: text(key), value: text(value), headers: pairs }
}

async function createTopic() {
  const name = await topic('created', 3)
  const [{ partitions }] = await admin.fetchTopicMetadata({ topics: [name], timeout })
  same('partitions', partitions.map(({ partitionId }) => partitionId).sort(), [0, 1, 2])
  same('made a second time', await admin.createTopics({ topics: [{ topic: name, numPartitions: 3 }], timeout }), false)
}

async function produce() {
  const name = await topic('produce', 3)
  const timestamp = Date.now()
  const records = numbers(3).flatMap(partition => [
    { partition, key: 'key', value: 'value', headers: [['one', 'first'], ['two', 'a'], ['two', 'b']] },
    { partition, key: 'deleted', value: null, headers: [] },
    { partition, key: null, value: 'without a key', headers: [['empty', '']] },
    { partition, key: 'empty', value: '', headers: [] },
  ])
  const messages = records.map(({ headers, ...message }) => {
    const named = {}
    for (const [name, value] of headers) named[name] = name in named ? [named[name], value] : value
    return { ...message, headers: named, timestamp: `${timestamp}` }
  })
  await send(name, messages)
  // This client writes an empty value as null.
  same('records', await readAll(name, 3), records.map((record, i) => ({ ...record, value: record.value || null, offset: i % 4, timestamp })))
}

function codec(name) {
  return async () => {
    const messages = numbers(100).map(i => ({ key: `key-${i}`, value: `the value of the record with number ${i}` }))
    const target = await topic(`codec-${name}`)
    await send(target, messages, { compression: name })
    same('records', (await readAll(target)).map(({ key, value }) => ({ key, value })), messages)
  }
}

async function consumeFromStart() {
  const name = await topic('from-start', 3)
  const records = numbers(3).flatMap(partition => numbers(50).map(offset => ({ partition, offset, value: `${partition}-${offset}` })))
  await send(name, records.map(({ partition, value }) => ({ partition, value })))
  const read = await consuming(consumer => readToEnd(consumer, numbers(3).map(partition => ({ topic: name, partition }))))
  same('records', read.map(({ partition, offset, value }) => ({ partition, offset, value })), records)
}

async function resumeByTimestamp() {
  const name = await topic('by-timestamp')
  const first = Date.now() - 100_000
  await send(name, numbers(10).map(i => ({ value: `value-${i}`, timestamp: `${first + i * 1000}` })))
  await consuming(async consumer => {
    const offsetsForTimes = promisify(consumer.offsetsForTimes.bind(consumer))
    const [place] = await offsetsForTimes([{ topic: name, partition: 0, offset: first + 5500 }], timeout)
    same('offset of the time', place.offset, 6)
    same('records from there', (await readToEnd(consumer, [place])).map(({ value }) => value), numbers(10).slice(6).map(i => `value-${i}`))
  })
}

async function deleteRecords() {
  const name = await topic('delete-records')
  await send(name, numbers(10).map(i => ({ value: `value-${i}` })))
  await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '4' }], timeout })
  const [{ low, high }] = await admin.fetchTopicOffsets(name, { timeout })
  same('offsets', [low, high], ['4', '10'])
  same('first record', (await readAll(name))[0].value, 'value-4')
}

async function idempotent() {
  const name = await topic('idempotent')
  const producer = kafka.producer({ kafkaJS: { idempotent: true } })
  await producer.connect()
  try {
    await Promise.all(numbers(100).map(i => producer.send({ topic: name, messages: [{ value: `${i}` }] })))
  } finally {
    await producer.disconnect()
  }
  same('values', (await readAll(name)).map(({ value }) => value), numbers(100).map(String))
}

async function commitResume() {
  const name = await topic('commit')
  const group = { 'group.id': `${prefix}-group` }
  const place = { topic: name, partition: 0 }
  await send(name, numbers(10).map(i => ({ value: `value-${i}` })))
  await consuming(async consumer => {
    same('records at first', (await readToEnd(consumer, [place])).length, 10)
    consumer.commitSync({ ...place, offset: 4 })
  }, group)
  await consuming(async consumer => {
    const committed = await promisify(consumer.committed.bind(consumer))([place], timeout)
    same('committed offset', committed[0].offset, 4)
    same('records from there', (await readToEnd(consumer, [place])).map(({ offset }) => offset), numbers(10).slice(4))
  }, group)
}

// reset commits for a group without members; the admin client has no call for it.
const reset = (group, topic, offset) => consuming(async consumer => {
  consumer.commitSync(numbers(6).map(partition => ({ topic, partition, offset: Number(offset) })))
}, { 'group.id': group })

// addOffsets wants a consumer that says for which group they are; one that subscribes to nothing is no member of it.
async function addOffsets(transaction, groupId, topics) {
  const consumer = kafka.consumer({ kafkaJS: { groupId } })
  await consumer.connect()
  try {
    await transaction.sendOffsets({ consumer, topics })
  } finally {
    await consumer.disconnect()
  }
}

async function deleteTopic() {
  const ours = async () => (await admin.listTopics({ timeout })).filter(name => name.startsWith(`${prefix}-`))
  await admin.deleteTopics({ topics: await ours(), timeout })
  await until('no topic of this run listed', async () => (await ours()).length === 0)
}

const lacking = call => async () => {
  throw new Unsupported(`its admin client has no ${call}`)
}

async function main() {
  await admin.connect()
  await report('@confluentinc/kafka-javascript', `${version} (librdkafka ${librdkafka})`, {
    'create-topic': createTopic,
    produce,
    'codec-none': codec('none'),
    'codec-gzip': codec('gzip'),
    'codec-snappy': codec('snappy'),
    'codec-lz4': codec('lz4'),
    'codec-zstd': codec('zstd'),
    'consume-from-start': consumeFromStart,
    'resume-by-timestamp': resumeByTimestamp,
    'list-configs': lacking('describeConfigs'),
    'alter-configs': lacking('alterConfigs'),
    'delete-records': deleteRecords,
    idempotent,
    'commit-resume': commitResume,
    transaction: transaction({
      admin,
      topic,
      join: joining(address),
      producer: transactionalId => kafka.producer({ kafkaJS: { transactionalId } }),
      addOffsets,
    }),
    ...groupFeatures({
      admin,
      topic,
      send,
      join: joining(address),
      describe: describing(admin),
      reset,
      victim: [require.resolve('./groups'), address],
    }),
    'delete-topic': deleteTopic,
  })
  await admin.disconnect()
}

main().then(() => process.exit()) // whatever a feature that failed left open
