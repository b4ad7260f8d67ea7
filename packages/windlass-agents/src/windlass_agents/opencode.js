// Windlass for opencode: the server of Windlass says what the model is to see of each result of a
// tool. Whatever fails, and what takes too long, leaves the result as it was.
import { spawn } from "node:child_process"

const SOCKET = "" // `windlass agent install opencode` fills in both; "": this system has no such sockets
const COMMAND = ["windlass", "agent", "run", "opencode"]
const OPTIONS = COMMAND.slice(COMMAND.indexOf("run") + 2)
const WAIT_MS = 300
const COMMAND_WAIT_MS = 9500 // the command gives up before
const MOST_CHARS = 2_000_000 // of earlier results
const MOST_MISSES = 3 // answers that did not come, one after the other
const REST_MS = 60_000 // for which nobody is asked then
const MOMENTS = {
  "session.created": "began",
  "session.compacted": "compacted",
  "session.idle": "paused",
  "session.deleted": "ended",
}

// Ask by the command, which starts the server where it does not run.
const run = (event) =>
  new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), {
      cwd: event.folder,
      stdio: ["pipe", "pipe", "ignore"],
    })
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      resolve({})
    }, COMMAND_WAIT_MS)
    let answer = ""
    child.stdout.setEncoding("utf8").on("data", (piece) => (answer += piece))
    child.stdin.on("error", () => {}) // it ended without reading
    child.on("error", () => resolve({}))
    child.on("close", () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(answer) ?? {})
      } catch {
        resolve({})
      }
    })
    child.stdin.end(JSON.stringify(event))
  })

let misses = 0
let restUntil = 0

// The answer of the server; undefined: none came.
const ask = async (route, event) => {
  if (!SOCKET) return run(event)
  if (Date.now() < restUntil) return
  const body = JSON.stringify({ agent: "opencode", options: OPTIONS, event })
  const request = { method: "POST", body, unix: SOCKET, signal: AbortSignal.timeout(WAIT_MS) }
  try {
    const reply = await fetch(`http://localhost/${route}`, request)
    const answer = reply.ok ? await reply.json() : {}
    misses = 0
    return answer
  } catch (error) {
    if (error?.name !== "TimeoutError") {
      const { session, folder, model } = event
      restUntil = Infinity // the server does not run: it is started, and nobody waits for it
      run({ session, folder, model, moment: "began" }).then(() => (restUntil = 0))
    } else if (++misses === MOST_MISSES) {
      misses = 0
      restUntil = Date.now() + REST_MS
    }
  }
}

// What the model sees of earlier results: of before this process, or of the session of a fork.
const earlierResults = async (client, id, callID) => {
  const { data } = await client.session.messages({ path: { id } })
  const since = data.findLastIndex(({ info }) => info.summary === true) + 1 // a compaction
  const results = []
  let chars = 0
  for (const { tool, callID: call_id, state } of data.slice(since).flatMap(({ parts }) => parts).reverse()) {
    const isSeen = state?.status === "completed" && !state.time?.compacted && call_id !== callID
    if (!tool || !isSeen || typeof state.output !== "string") continue
    chars += state.output.length
    if (chars > MOST_CHARS) break
    results.unshift({ tool, call_id, arguments: state.input, text: state.output })
  }
  return results
}

export const Windlass = async ({ directory, client }) => {
  const parents = new Map() // a subagent is a session that has a parent
  const models = new Map()
  const live = new Set()
  const known = new Set() // sessions of which earlier results were handed over
  const place = (id) => {
    let session = id
    while (parents.has(session)) session = parents.get(session)
    const thread = session === id ? {} : { thread: id }
    return { session, ...thread, folder: directory, model: models.get(id) }
  }
  const begin = async (id) => {
    if (live.has(id)) return
    live.add(id)
    const event = { ...place(id), moment: "began" }
    if (SOCKET && !event.thread) await run(event) // it tells the environment, too
    await ask("moment", event)
  }
  const earlier = async (id, callID) => {
    if (known.has(id)) return {}
    known.add(id)
    try {
      const results = await earlierResults(client, id, callID)
      return results.length ? { earlier: results } : {}
    } catch {
      return {}
    }
  }
  return {
    event: async ({ event }) => {
      const { info, sessionID = info?.id } = event.properties
      if (event.type === "session.created" && info.parentID) parents.set(info.id, info.parentID)
      const moment = MOMENTS[event.type]
      if (moment === "began") begin(sessionID) // not waited for
      else if (moment && sessionID) await ask("moment", { ...place(sessionID), moment })
    },
    "chat.params": async ({ sessionID, model }) => {
      models.set(sessionID, `${model.providerID}/${model.id}`)
      begin(sessionID)
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
      // A tool of an MCP server has blocks; one block of text is as good as a text.
      const [block, ...more] = output.content ?? []
      const holder = block?.type === "text" && !more.length ? block : output
      const key = holder === output ? "output" : "text"
      if (typeof holder[key] !== "string") return
      const failed = Boolean(output.isError || output.metadata?.exit)
      const call = { tool, call_id: callID, arguments: args, text: holder[key], failed }
      const before = await earlier(sessionID, callID)
      const answer = await ask("result", { ...place(sessionID), ...call, ...before })
      if (!answer) known.delete(sessionID) // what came before is told again
      if (typeof answer?.text === "string") holder[key] = answer.text
    },
  }
}
