// Windlass for opencode: each result of a tool goes to `windlass agent run opencode`, which may
// shorten it before the model sees it. Whatever fails, the result stays as it was.
import { spawn } from "node:child_process"

const COMMAND = ["windlass", "agent", "run", "opencode"]
const WAIT_MS = 9500 // the command gives up before
const MOST_CHARS = 2_000_000 // of earlier results
const MOMENTS = {
  "session.created": "began",
  "session.compacted": "compacted",
  "session.idle": "paused",
  "session.deleted": "ended",
}

const ask = (payload) =>
  new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), {
      cwd: payload.folder,
      stdio: ["pipe", "pipe", "ignore"],
    })
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      resolve({})
    }, WAIT_MS)
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
    child.stdin.end(JSON.stringify(payload))
  })

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
  const begin = (id) => {
    if (live.has(id)) return
    live.add(id)
    ask({ ...place(id), moment: "began" }) // not waited for: the process that answers starts
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
      if (moment === "began") begin(sessionID)
      else if (moment && sessionID) await ask({ ...place(sessionID), moment })
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
      const { text } = await ask({ ...place(sessionID), ...call, ...before })
      if (typeof text === "string") holder[key] = text
    },
  }
}
