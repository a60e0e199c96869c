// Members of a group by KafkaJS, which knows the classic protocol with eager assignors only.
'use strict'

const { fork } = require('node:child_process')
const { once } = require('node:events')
const { Kafka, logLevel } = require('kafkajs')
const { Unsupported, same, until, numbers } = require('../node/report')

// A member that is gone is missed after sessionTimeout; brokers allow no less. Between fetches is when a member hears of
// a rebalance.
const patience = { sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10_000, maxWaitTimeInMs: 500 }

// join starts a consumer and returns it with what it owns and has read.
async function join(address, groupId, topic) {
  const kafka = new Kafka({ brokers: [address], clientId: 'kafkajs', logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({ groupId, ...patience })
  const member = { consumer, owned: [], read: [], leave: () => consumer.disconnect() }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { member.owned = payload.memberAssignment[topic] ?? [] })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => { member.read.push(`${partition}/${message.offset}`) },
  })
  return member
}

const wait = () => new Promise(resolve => setImmediate(resolve))

// own waits until the members own that many partitions each.
const own = (count, ...members) =>
  until(`${count} partitions each`, async () => (await wait(), members.every(({ owned }) => owned.length === count)))

// groupFeatures are those of the list of features; topic and send are client.js's.
function groupFeatures({ address, admin, topic, send }) {
  // filled makes a topic of six partitions with ten records each; a producer that is not idempotent would write some twice
  // while partitions are not ready yet.
  async function filled(suffix) {
    const name = await topic(suffix, 6)
    await send(name, numbers(60).map(i => ({ partition: i % 6, value: `value-${i}` })), { idempotent: true, maxInFlightRequests: 1 })
    return { name, group: `${name}-group`, all: numbers(60).map(i => `${i % 6}/${Math.floor(i / 6)}`).sort() }
  }

  async function balance() {
    const { name, group, all } = await filled('balance')
    const members = await Promise.all(numbers(3).map(() => join(address, group, name)))
    try {
      await own(2, ...members)
      const read = () => [...new Set(members.flatMap(member => member.read))].sort()
      await until('every record read', async () => (await wait(), read().length === all.length))
      same('records', read(), all)
    } finally {
      await Promise.all(members.map(member => member.leave()))
    }
  }

  async function joinLeave() {
    const { name, group } = await filled('join-leave')
    const first = await join(address, group, name)
    try {
      await own(6, first)
      const second = await join(address, group, name)
      await own(3, first, second)
      await second.leave()
      await own(6, first)
    } finally {
      await first.leave()
    }
  }

  // The victim is a process of its own, which is killed.
  async function kill() {
    const { name, group } = await filled('kill')
    const victim = fork(__filename, [address, group, name])
    await once(victim, 'message') // it has read and committed everything
    const heir = await join(address, group, name)
    try {
      await own(3, heir)
      victim.kill('SIGKILL')
      await own(6, heir)
      same('records read again', heir.read, [])
    } finally {
      await heir.leave()
    }
  }

  async function administer() {
    const { name, group, all } = await filled('administered')
    const member = await join(address, group, name)
    await until('every record read', async () => (await wait(), member.read.length === all.length))
    same('listed', (await admin.listGroups()).groups.find(({ groupId }) => groupId === group)?.protocolType, 'consumer')
    const described = (await admin.describeGroups([group])).groups[0]
    same('state and members', [described.state, described.members.length], ['Stable', 1])
    await member.leave()
    const committed = async () => (await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions.map(({ offset }) => offset)
    same('committed', await committed(), Array(6).fill('10'))
    await admin.setOffsets({ groupId: group, topic: name, partitions: numbers(6).map(partition => ({ partition, offset: '1' })) })
    same('reset', await committed(), Array(6).fill('1'))
    await admin.deleteGroups([group])
    same('listed after its deletion', (await admin.listGroups()).groups.some(({ groupId }) => groupId === group), false)
  }

  const lacking = what => async () => {
    throw new Unsupported(`it has no ${what}`)
  }

  return {
    'group-balance': balance,
    'group-join-leave': joinLeave,
    'group-kill': kill,
    'group-static': lacking('static members'),
    'group-cooperative': lacking('cooperative assignor'),
    'group-new-protocol': lacking('protocol of groups but the classic one'),
    'group-admin': administer,
  }
}

// victim joins, reads what there is and says so to the process that started it.
async function victim(address, group, name) {
  const member = await join(address, group, name)
  await until('every record read', async () => (await wait(), member.read.length === 60))
  await member.consumer.commitOffsets(numbers(6).map(partition => ({ topic: name, partition, offset: '10' })))
  process.send('read')
}

module.exports = { groupFeatures }
if (require.main === module) victim(...process.argv.slice(2))
