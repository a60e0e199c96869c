// What the clients for Node do as members of a group, besides what client.js of each shows.
'use strict'

const { fork } = require('node:child_process')
const { once } = require('node:events')
const { same, until, numbers } = require('./report')

const written = numbers(60).map(i => `${i % 6}/${Math.floor(i / 6)}`).sort() // partition/offset of what filled writes

// A member is gone without a word when its session, of that many ms, has ended; brokers allow no less than 6000.
const session = { short: 6000, long: 45_000 }

// A member, as a client's join returns it: the partitions that it owns, those that it ever gave, how often it was
// assigned any, what it has read; commit, of what it has read, and leave.
class Member {
  owned = new Set()
  revoked = new Set()
  assignments = 0
  read = [] // partition/offset

  assigned(partitions) {
    this.assignments++
    partitions.forEach(partition => this.owned.add(partition))
  }

  gave(partitions) {
    partitions.forEach(partition => { this.owned.delete(partition); this.revoked.add(partition) })
  }

  took(partition, offset) {
    this.read.push(`${partition}/${offset}`)
  }
}

// readAll says whether the members have read every record among them. What is not committed is read again by its next
// owner, and by a member that has to join anew: records are told apart, not counted.
const readAll = (...members) => new Set(members.flatMap(({ read }) => read)).size >= written.length

const turn = () => new Promise(resolve => setTimeout(resolve, 20))

const eventually = (what, condition) => until(what, async () => (await turn(), condition()))

// own waits until the members own that many partitions each.
const own = (count, ...members) => eventually(`${count} partitions each`, () => members.every(({ owned }) => owned.size === count))

// holding calls use with a function that joins members, and has those that are left leave in the end.
async function holding(join, use) {
  const members = new Set()
  const leave = member => members.delete(member) && member.leave()
  try {
    await use(async options => {
      const member = await join(options)
      members.add(member)
      return member
    }, leave)
  } finally {
    for (const member of members) await leave(member)
  }
}

// groupFeatures are those of the list of features. The client gives its admin; topic and send as client.js has them;
//
//   join({ group, topic, assignor, instance, sessionTimeout })  a Member; assignor is range, cooperative-sticky or broker
//   describe(group)                                             { stable, members }, the number of them
//   reset(group, topic, offset)                                 commits for all six partitions, without a member
//   victim                                                      the file and arguments of a process that calls victim
function groupFeatures({ admin, topic, send, join, describe, reset, victim }) {
  // filled makes a topic of six partitions with ten records each; a producer that is not idempotent would write some twice
  // while partitions are not ready yet.
  async function filled(suffix) {
    const name = await topic(suffix, 6)
    await send(name, numbers(60).map(i => ({ partition: i % 6, value: `value-${i}` })), { idempotent: true, maxInFlightRequests: 1 })
    return { topic: name, group: `${name}-group`, assignor: 'range', sessionTimeout: session.long }
  }

  function balance(suffix, assignor) {
    return () => holding(join, async join => {
      const options = { ...await filled(suffix), assignor }
      const members = await Promise.all(numbers(3).map(() => join(options)))
      await own(2, ...members)
      await eventually('every record read', () => readAll(...members))
      same('records', [...new Set(members.flatMap(({ read }) => read))].sort(), written)
    })
  }

  const joinLeave = () => holding(join, async (join, leave) => {
    const options = await filled('join-leave')
    const first = await join(options)
    await own(6, first)
    const second = await join(options)
    await own(3, first, second)
    await leave(second)
    await own(6, first)
  })

  // The victim is a process of its own, which is killed.
  const kill = () => holding(join, async join => {
    const options = { ...await filled('kill'), sessionTimeout: session.short }
    const [file, ...args] = victim
    const process = fork(file, [...args, JSON.stringify(options)])
    try {
      // It has read and committed everything, or it has ended.
      const [said] = await Promise.race([once(process, 'message'), once(process, 'exit')])
      same('what the victim says', said, 'committed')
      const heir = await join(options)
      await own(3, heir)
      process.kill('SIGKILL')
      await own(6, heir)
      same('records read again', heir.read, [])
    } finally {
      process.kill('SIGKILL')
    }
  })

  const staticMember = () => holding(join, async (join, leave) => {
    const options = await filled('static')
    const first = await join({ ...options, instance: 'one' })
    const second = await join({ ...options, instance: 'two' })
    await own(3, first, second)
    const before = [...second.owned].sort()
    const { assignments } = first
    await leave(second)
    const again = await join({ ...options, instance: 'two' })
    await own(3, again)
    same('partitions of the member that came back', [...again.owned].sort(), before)
    same('assignments that the other got', first.assignments, assignments)
  })

  const cooperative = () => holding(join, async join => {
    const options = { ...await filled('cooperative'), assignor: 'cooperative-sticky' }
    const first = await join(options)
    await own(6, first)
    const second = await join(options)
    await own(3, first, second)
    same('partitions revoked', [...first.revoked].sort(), [...second.owned].sort())
  })

  async function administer() {
    const options = await filled('administered')
    const { topic, group } = options
    const listed = async () => (await admin.listGroups()).groups.find(({ groupId }) => groupId === group)?.protocolType
    const committed = async () => (await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions.map(({ offset }) => offset)
    await holding(join, async join => {
      const member = await join(options)
      await eventually('every record read', () => readAll(member))
      await member.commit()
      same('listed', await listed(), 'consumer')
      same('description', await describe(group), { stable: true, members: 1 })
    })
    await until('no members', async () => (await describe(group)).members === 0)
    same('committed', await committed(), Array(6).fill('10'))
    await reset(group, topic, '1')
    same('reset', await committed(), Array(6).fill('1'))
    await admin.deleteGroups([group])
    same('listed after its deletion', await listed(), undefined)
  }

  return {
    'group-balance': balance('balance', 'range'),
    'group-join-leave': joinLeave,
    'group-kill': kill,
    'group-static': staticMember,
    'group-cooperative': cooperative,
    'group-new-protocol': balance('new-protocol', 'broker'),
    'group-admin': administer,
  }
}

// victim joins, reads and commits what there is and says so to the process that started it.
async function victim(join, options) {
  const member = await join(JSON.parse(options))
  await eventually('every record read', () => readAll(member))
  await member.commit()
  process.send('committed')
}

module.exports = { Member, groupFeatures, victim, holding, eventually, session }
