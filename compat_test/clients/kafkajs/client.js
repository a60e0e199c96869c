// KafkaJS, the client for Node in JavaScript alone:
//
//   node client.js ADDRESS PREFIX
//
// A KafkaJS consumer is always a member of a group: those are in groups.js. What does not need one is read here by what
// its consumers fetch with, the broker inside the client.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')
const { ZstdCodec } = require('zstd-codec')
const lz4 = require('lz4-napi')
const { Unsupported, report, same, until, numbers } = require('../node/report')
const { groupFeatures } = require('../node/groups')
const { transaction } = require('../node/transactions')
const { joining, administering } = require('./groups')

const [address, prefix] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [address], clientId: 'kafkajs', connectionTimeout: 30_000, logLevel: logLevel.WARN })
const admin = kafka.admin()

// KafkaJS brings gzip; the others are plugged in.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
const zstd = new Promise(resolve => ZstdCodec.run(({ Simple }) => resolve(new Simple())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
})

// topic makes a topic of this run and returns its name. The leaders that createTopics would wait for are those of a topic that
// the broker already knows.
async function topic(suffix, numPartitions = 1, configEntries = []) {
  const name = `${prefix}-${suffix}`
  const topics = [{ topic: name, numPartitions, replicationFactor: 1, configEntries }]
  await admin.createTopics({ topics, waitForLeaders: false })
  await until(`metadata of ${name}`, async () => (await admin.listTopics()).includes(name))
  return name
}

// send writes messages with a producer of its own.
async function send(topic, messages, { compression, ...config } = {}) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...config })
  await producer.connect()
  try {
    await producer.send({ topic, messages, compression, acks: -1 })
  } finally {
    await producer.disconnect()
  }
}

// read returns the records of a partition from an offset to the end.
async function read(topic, partition, from = 0n) {
  const inside = Object.getOwnPropertySymbols(kafka).find(symbol => symbol.description === 'private:Kafka:createCluster')
  const cluster = kafka[inside]({ allowAutoTopicCreation: false })
  const records = []
  await cluster.connect()
  try {
    await cluster.addTargetTopic(topic)
    const { leader } = cluster.findTopicPartitionMetadata(topic).find(({ partitionId }) => partitionId === partition)
    const broker = await cluster.findBroker({ nodeId: leader })
    for (let next = from, end = from + 1n; next < end; ) {
      const partitions = [{ partition, fetchOffset: next.toString(), maxBytes: 1 << 20 }]
      const { responses } = await broker.fetch({ topics: [{ topic, partitions }], maxWaitTime: 500, isolationLevel: 0 })
      const [{ messages, highWatermark }] = responses[0].partitions
      for (const message of messages.filter(({ offset }) => BigInt(offset) >= next)) records.push(plain(message))
      end = BigInt(highWatermark)
      if (records.length > 0) next = BigInt(records.at(-1).offset) + 1n
    }
  } finally {
    await cluster.disconnect()
  }
  return records
}

// plain shows a record with texts instead of buffers.
function plain({ offset, timestamp, key, value, headers }) {
  const text = buffer => (Array.isArray(buffer) ? buffer.map(text) : (buffer?.toString() ?? null))
  const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, text(value)]))
  return { offset, timestamp, key: text(key), value: text(value), headers: named }
}

async function createTopic() {
  const name = await topic('created', 3)
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] })
  same('partitions', topics[0].partitions.map(({ partitionId }) => partitionId).sort(), [0, 1, 2])
  same('made a second time', await admin.createTopics({ topics: [{ topic: name, numPartitions: 3 }] }), false)
}

async function produce() {
  const name = await topic('produce', 3)
  const timestamp = Date.now().toString()
  for (const partition of numbers(3)) {
    const messages = [
      { key: 'key', value: 'value', headers: { one: 'first', two: ['a', 'b'] } },
      { key: 'deleted', value: null, headers: {} },
      { key: null, value: 'without a key', headers: { empty: '' } },
      { key: '', value: '', headers: {} },
    ].map(message => ({ ...message, timestamp }))
    await send(name, messages.map(message => ({ ...message, partition })))
    const want = messages.map((message, offset) => ({ offset: `${offset}`, ...message }))
    same(`partition ${partition}`, await read(name, partition), want)
  }
}

function codec(name, compression) {
  return async () => {
    const messages = numbers(100).map(i => ({ key: `key-${i}`, value: `the value of the record with number ${i}` }))
    const target = await topic(`codec-${name}`)
    await send(target, messages, { compression })
    same('records', (await read(target, 0)).map(({ key, value }) => ({ key, value })), messages)
  }
}

async function consumeFromStart() {
  const name = await topic('from-start', 3)
  const values = partition => numbers(50).map(i => `${partition}-${i}`)
  const messages = numbers(3).flatMap(partition => values(partition).map(value => ({ partition, value })))
  await send(name, messages)
  for (const partition of numbers(3)) {
    const { low } = (await admin.fetchTopicOffsets(name)).find(offsets => offsets.partition === partition)
    const records = await read(name, partition, BigInt(low))
    same(`values of partition ${partition}`, records.map(({ value }) => value), values(partition))
    same(`offsets of partition ${partition}`, records.map(({ offset }) => offset), numbers(50).map(String))
  }
}

async function resumeByTimestamp() {
  const name = await topic('by-timestamp')
  const first = Date.now() - 100_000
  await send(name, numbers(10).map(i => ({ value: `value-${i}`, timestamp: `${first + i * 1000}` })))
  const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(name, first + 5500)
  same('offset of the time', offset, '6')
  same('records from there', (await read(name, 0, BigInt(offset))).map(({ value }) => value), numbers(10).slice(6).map(i => `value-${i}`))
}

// configs returns those of a topic by name.
async function configs(name) {
  const { resources } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name }], includeSynonyms: false })
  return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry]))
}

async function listConfigs() {
  const name = await topic('configs', 1, [{ name: 'retention.ms', value: '3600000' }])
  const described = await configs(name)
  same('retention.ms', [described['retention.ms'].configValue, described['retention.ms'].isDefault], ['3600000', false])
  same('cleanup.policy', [described['cleanup.policy'].configValue, described['cleanup.policy'].isDefault], ['delete', true])
}

async function alterConfigs() {
  const name = await topic('alter-configs')
  const configEntries = [{ name: 'retention.ms', value: '86400000' }]
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries }] })
  await until('retention.ms altered', async () => (await configs(name))['retention.ms'].configValue === '86400000')
}

async function deleteRecords() {
  const name = await topic('delete-records')
  await send(name, numbers(10).map(i => ({ value: `value-${i}` })))
  await admin.fetchTopicOffsets(name) // deleteTopicRecords finds no leader of a topic that this client never asked about
  await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '4' }] })
  const [{ low, high }] = await admin.fetchTopicOffsets(name)
  same('offsets', [low, high], ['4', '10'])
  same('first record', (await read(name, 0, 4n))[0].value, 'value-4')
}

async function idempotent() {
  const name = await topic('idempotent')
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  await producer.connect()
  try {
    for (const i of numbers(100)) await producer.send({ topic: name, messages: [{ value: `${i}` }] })
  } finally {
    await producer.disconnect()
  }
  same('values', (await read(name, 0)).map(({ value }) => value), numbers(100).map(String))
}

async function commitResume() {
  throw new Unsupported('its consumers are always members of a group')
}

// transactional makes a producer that writes in transactions only.
const transactional = transactionalId =>
  kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })

async function deleteTopic() {
  const ours = async () => (await admin.listTopics()).filter(name => name.startsWith(`${prefix}-`))
  await admin.deleteTopics({ topics: await ours() })
  await until('no topic of this run listed', async () => (await ours()).length === 0)
}

async function main() {
  await admin.connect()
  await report('kafkajs', version, {
    'create-topic': createTopic,
    produce,
    'codec-none': codec('none', CompressionTypes.None),
    'codec-gzip': codec('gzip', CompressionTypes.GZIP),
    'codec-snappy': codec('snappy', CompressionTypes.Snappy),
    'codec-lz4': codec('lz4', CompressionTypes.LZ4),
    'codec-zstd': codec('zstd', CompressionTypes.ZSTD),
    'consume-from-start': consumeFromStart,
    'resume-by-timestamp': resumeByTimestamp,
    'list-configs': listConfigs,
    'alter-configs': alterConfigs,
    'delete-records': deleteRecords,
    idempotent,
    'commit-resume': commitResume,
    transaction: transaction({
      admin,
      topic,
      join: joining(address),
      producer: transactional,
      addOffsets: (transaction, consumerGroupId, topics) => transaction.sendOffsets({ consumerGroupId, topics }),
    }),
    ...groupFeatures({
      admin,
      topic,
      send,
      join: joining(address),
      ...administering(admin),
      victim: [require.resolve('./groups'), address],
    }),
    'delete-topic': deleteTopic,
  })
  await admin.disconnect()
}

main().then(() => process.exit()) // whatever a feature that failed left open
