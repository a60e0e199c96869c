// Members of a group by KafkaJS, which knows the classic protocol with eager assignors only.
'use strict'

const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const { Unsupported, numbers } = require('../node/report')
const { Member, victim } = require('../node/groups')

// joining returns the function that starts a consumer and returns its member.
const joining = address => async ({ group: groupId, topic, assignor, instance, sessionTimeout }) => {
  if (instance) throw new Unsupported('it has no static members')
  if (assignor === 'cooperative-sticky') throw new Unsupported('it has no cooperative assignor')
  if (assignor === 'broker') throw new Unsupported('it has no protocol of groups but the classic one')
  const kafka = new Kafka({ brokers: [address], clientId: 'kafkajs', connectionTimeout: 30_000, logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({
    groupId,
    partitionAssigners: [PartitionAssigners.roundRobin], // it has no other
    sessionTimeout,
    heartbeatInterval: 500,
    rebalanceTimeout: 10_000,
    maxWaitTimeInMs: 500, // between fetches is when a member hears of a rebalance
  })
  const member = new Member()
  member.commit = () => consumer.commitOffsets(numbers(6).map(partition => ({ topic, partition, offset: '10' })))
  member.leave = () => consumer.disconnect()
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.gave([...member.owned])
    member.assigned(payload.memberAssignment[topic] ?? [])
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => member.took(partition, message.offset) })
  return member
}

// administering returns what groupFeatures wants of an admin client.
const administering = admin => ({
  describe: async group => {
    const { state, members } = (await admin.describeGroups([group])).groups[0]
    return { stable: state === 'Stable', members: members.length }
  },
  reset: (groupId, topic, offset) =>
    admin.setOffsets({ groupId, topic, partitions: numbers(6).map(partition => ({ partition, offset })) }),
})

module.exports = { joining, administering }
if (require.main === module) victim(joining(process.argv[2]), process.argv[3])
