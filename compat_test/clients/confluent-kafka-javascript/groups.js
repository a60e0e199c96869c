// Members of a group by Confluent's client for Node.
'use strict'

const { KafkaJS } = require('@confluentinc/kafka-javascript')
const { numbers } = require('../node/report')
const { Member, victim } = require('../node/groups')

// joining returns the function that starts a consumer and returns its member.
const joining = address => async ({ group: groupId, topic, assignor, instance, sessionTimeout }) => {
  const kafka = new KafkaJS.Kafka({ kafkaJS: { brokers: [address], logLevel: KafkaJS.logLevel.ERROR } })
  const member = new Member()
  const consumer = kafka.consumer({
    kafkaJS: {
      groupId,
      fromBeginning: true,
      autoCommit: false,
      allowAutoTopicCreation: false,
      ...(assignor !== 'broker' && { partitionAssignors: [assignor], sessionTimeout, heartbeatInterval: 500 }),
    },
    ...(assignor === 'broker' && { 'group.protocol': 'consumer' }), // its sessions are the broker's to say
    ...(instance && { 'group.instance.id': instance }),
    rebalance_cb: ({ code }, changed) => {
      const partitions = changed.map(({ partition }) => partition)
      if (code === KafkaJS.ErrorCodes.ERR__ASSIGN_PARTITIONS) member.assigned(partitions)
      else member.gave(partitions)
    },
  })
  member.commit = () => consumer.commitOffsets(numbers(6).map(partition => ({ topic, partition, offset: '10' })))
  member.leave = () => consumer.disconnect()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  await consumer.run({ eachMessage: async ({ partition, message }) => member.took(partition, message.offset) })
  return member
}

const describing = admin => async group => {
  const { state, members } = (await admin.describeGroups([group], { timeout: 60_000 })).groups[0]
  return { stable: state === KafkaJS.ConsumerGroupStates.STABLE, members: members.length }
}

module.exports = { joining, describing }
if (require.main === module) victim(joining(process.argv[2]), process.argv[3])
