// What the clients for Node share: features run one after the other, a line each.
'use strict'

const { isDeepStrictEqual } = require('node:util')

// A feature throws it when the client has no such call.
class Unsupported extends Error {}

// report prints the client's version, then runs each feature and prints its line. What a feature throws is the reason
// why it failed.
async function report(name, version, features) {
  console.log(`version ${name} ${version}`)
  for (const [feature, run] of Object.entries(features)) {
    let outcome = 'pass'
    try {
      await run()
    } catch (error) {
      outcome = `${error instanceof Unsupported ? 'unsupported' : 'fail'} ${error.message.replace(/\s+/g, ' ')}`
      if (outcome.startsWith('fail')) console.error(error)
    }
    console.log(`${feature} ${outcome}`)
  }
}

// same throws, and shows both values, when got is not equal to want in every part; of lists the first elements that
// differ.
function same(what, got, want) {
  if (isDeepStrictEqual(got, want)) return
  if (Array.isArray(got) && Array.isArray(want) && got.length === want.length) {
    const i = got.findIndex((element, i) => !isDeepStrictEqual(element, want[i]))
    same(`${what}, number ${i}`, got[i], want[i])
  }
  throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)
}

// until asks again until the answer is yes, for two minutes at most: what a cluster says about itself may lag behind what it
// acknowledged.
async function until(what, condition) {
  const deadline = Date.now() + 120_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not so after two minutes`)
  }
}

// numbers is the list from 0 to count - 1.
const numbers = count => [...Array(count).keys()]

module.exports = { Unsupported, report, same, until, numbers }
