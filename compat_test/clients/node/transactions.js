// What the clients for Node do in transactions.
'use strict'

const { same, until, numbers } = require('./report')
const { holding, eventually, session } = require('./groups')

// transaction is the feature of that name. The client gives its admin; topic and join as groupFeatures has them;
//
//   producer(id)                              a producer with that transactional id
//   addOffsets(transaction, group, topics)    adds offsets for a group without members
function transaction({ admin, topic, join, producer, addOffsets }) {
  // transact writes ten records and commits an offset for the group, together.
  async function transact(topic, group, offset, end) {
    const writer = producer(`${topic}-id`)
    await writer.connect()
    try {
      const transaction = await writer.transaction()
      await transaction.send({ topic, messages: numbers(10).map(i => ({ partition: 0, value: `${end}-${i}` })) })
      await addOffsets(transaction, group, [{ topic, partitions: [{ partition: 0, offset }] }])
      await transaction[end]()
    } finally {
      await writer.disconnect()
    }
  }

  return async () => {
    const name = await topic('transaction')
    const group = `${name}-group`
    const committed = async () => (await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions[0].offset
    for (const [offset, end, want] of [['10', 'commit', '10'], ['11', 'abort', '10'], ['12', 'commit', '12']]) {
      await transact(name, group, offset, end)
      await until(`committed offset ${want} after ${end}`, async () => (await committed()) === want)
    }
    // Consumers read committed records unless they are told otherwise. The end of a transaction takes an offset too.
    await holding(join, async join => {
      const reader = await join({ topic: name, group: `${name}-readers`, assignor: 'range', sessionTimeout: session.long })
      await eventually('every committed record read', () => reader.read.includes('0/31'))
      const want = [...numbers(10), ...numbers(10).map(i => 22 + i)].map(offset => `0/${offset}`)
      same('records read', [...new Set(reader.read)], want)
    })
  }
}

module.exports = { transaction }
