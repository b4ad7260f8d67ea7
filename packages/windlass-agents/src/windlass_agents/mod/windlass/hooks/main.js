// Windlass for Claude Code: the server of Windlass says what the model is to see of each result of a
// tool, before the row is kept; which tools wait behind the search for tools; and what takes the
// place of a conversation that is compacted. Whatever fails, and what takes too long, leaves all as
// it was.

const SOCKET = "" // `windlass agent install claude-code` fills in both
const OPTIONS = {} // by the folder for which it was installed; "": for all of the user's
const WAIT_MS = 300
const LINE_MS = 3_000 // for which the server takes to read the session
const LEAST_WINDOW = "100000" // tokens, the least that Claude Code takes for its compactions
const COMPACT_MS = 3_000 // the model of Claude Code takes half a minute for its own

const MOST_MISSES = 3 // answers that did not come, one after the other
const REST_MS = 60_000 // for which nobody is asked then

let misses = 0
let restUntil = 0
let place = {} // the session, as Claude Code tells its hooks
let due = { cancel: () => {} } // the timer of the next compaction
let search // whether the session has a search for tools, as a promise
let isOwn = false // whether the compaction that comes is one that this mod asked for
let isRefused = false // whether one that it asked for within this turn was not made
let windowBefore // what the user's variable said while this mod asks within a turn
const calls = new Map() // of tools, by their ids, until the results are there
const models = new Map() // by subagent

// What was installed for the innermost folder that the session is in.
function optionsHere() {
  const inside = (folder) => folder === "" || `${place.cwd}/`.startsWith(`${folder}/`)
  const folders = Object.keys(OPTIONS).filter(inside)
  return OPTIONS[folders.sort((one, other) => other.length - one.length)[0]] ?? []
}

async function find($) {
  if (place.session_id) return
  const { transcriptPath } = await $.session.info()
  const [session_id, cwd] = [await $.session.id(), await $.session.cwd()]
  place = { session_id, cwd, transcript_path: transcriptPath }
}

async function ask($, route, event, wait = WAIT_MS) {
  const now = await $.clock.now()
  if (now < restUntil) return {}
  await find($)
  const told = { agent: "claude-code", options: optionsHere(), wait_ms: wait }
  const body = JSON.stringify({ ...told, event: { ...place, ...event } })
  const request = { method: "POST", body, socketPath: SOCKET }
  const reply = $.http.fetch(`http://windlass/${route}`, request).catch(() => undefined)
  const answer = await Promise.race([reply, $.clock.sleep(wait)])
  misses = answer ? 0 : misses + 1
  if (misses >= MOST_MISSES) restUntil = now + REST_MS
  try {
    return answer && answer.ok ? JSON.parse(answer.text) : {}
  } catch {
    return {}
  }
}

// A moment in the words of Claude Code's hooks, once these have run.
async function tell($, e, next) {
  const result = await next(e)
  if (e.hook_event_name !== "SubagentStop") {
    place = { session_id: e.session_id, transcript_path: e.transcript_path, cwd: e.cwd }
  }
  await ask($, "moment", e)
  return result
}

// The content of a result that says `text`: what is no text, such as a picture, stays.
function withText(content, text) {
  if (typeof content === "string") return text
  const first = content.findIndex((block) => block.type === "text")
  return content.flatMap((block, at) => {
    if (block.type !== "text") return [block]
    return at === first ? [{ ...block, text }] : []
  })
}

async function shorten($, e, block) {
  if (block.type !== "tool_result") return block
  const call = calls.get(block.tool_use_id) ?? {}
  calls.delete(block.tool_use_id)
  const { text } = await ask($, "result", {
    agent_id: e.agentId,
    model: models.get(e.agentId),
    tool_use_id: block.tool_use_id,
    tool_name: e.origin.tool ?? call.name,
    tool_input: call.input,
    content: block.content,
  })
  return typeof text === "string" ? { ...block, content: withText(block.content, text) } : block
}

// Without the search a definition that waits stands in front all the same.
async function hasSearch($) {
  return (await $.tool.list()).some(({ name }) => name === "ToolSearch")
}

// The figures of the turns so far, as soon as they are computed.
async function showLine($) {
  const { line } = await ask($, "line", {})
  if (line) await $.ui.status(line)
}

// Asks when a compaction is due, and lets Claude Code compact then, which asks `compact`.
async function wait($) {
  due.cancel()
  const { context } = await $.session.usage()
  const { seconds } = await ask($, "due", { window: context.window })
  if (typeof seconds === "number") due = $.clock.after(1_000 * seconds + 1, () => compactNow($))
}

// Within a turn Claude Code compacts only where it finds its window full. So that is said, until it
// asks at the next step.
async function askWithin($, e) {
  if (e.agentId !== undefined || isOwn || isRefused) return
  const { context } = await $.session.usage()
  const { seconds } = await ask($, "due", { window: context.window })
  if (seconds !== 0) return
  windowBefore = await $.env.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW")
  isOwn = true
  await $.env.set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", LEAST_WINDOW)
}

async function askNoMore($) {
  if (!isOwn) return
  isOwn = false
  await $.env.set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", windowBefore)
}

async function compactNow($) {
  isOwn = true
  try {
    await $.command.run({ command: "compact" })
  } finally {
    isOwn = false
  }
}

// The rows without what the client keeps of them for itself, and each result once, though each block
// of an answer has a row with all of them: what `$.http.fetch` sends has at most 4,194,304 characters.
function bare(rows) {
  const told = new Set()
  return rows.map(({ role, text, toolUses, toolResults }) => {
    const fresh = toolResults?.filter((one) => !told.has(one.tool_use_id)) ?? []
    for (const one of fresh) told.add(one.tool_use_id)
    const results = fresh.map(({ tool_use_id, text, isError, result }) => {
      return { tool_use_id, text, isError, result: text ? undefined : result }
    })
    const uses = toolUses?.map(({ tool_use_id, tool, input }) => ({ tool_use_id, tool, input }))
    return { role, text, toolUses: uses, toolResults: results }
  })
}

async function compact($, e) {
  const own = isOwn && e.agentId === undefined
  if (own && e.trigger === "auto") await askNoMore($)
  const { window } = (await $.session.usage()).context
  return ask($, "compact", { ...e, messages: bare(e.messages), own, window }, COMPACT_MS)
}

const asItWas = ($, e, next) => next(e)

export function register(on) {
  on("classic.SessionStart", async ($, e, next) => {
    const result = await tell($, e, next)
    if (e.source === "resume") await wait($)
    return result
  }).catch(asItWas)
  on("classic.PostCompact", async ($, e, next) => tell($, e, next)).catch(asItWas)
  on("classic.Stop", async ($, e, next) => {
    const result = await tell($, e, next)
    $.clock.after(LINE_MS, () => showLine($))
    return result
  }).catch(asItWas)
  on("classic.SubagentStop", async ($, e, next) => tell($, e, next)).catch(asItWas)
  on("classic.SessionEnd", async ($, e, next) => tell($, e, next)).catch(asItWas)

  on("turn.start", async ($, e, next) => {
    if (e.agentId === undefined) {
      due.cancel()
      isRefused = false
    }
    return next(e)
  }).catch(asItWas)
  on("turn.complete", async ($, e, next) => {
    const result = await next(e)
    if (e.agentId !== undefined) return result
    await askNoMore($)
    if (e.reason === "answer") await wait($)
    return result
  }).catch(asItWas)

  on("tool.describe", async ($, e, next) => {
    const result = await next(e)
    search ??= hasSearch($)
    if (e.isDeferred || !(await search)) return result
    const { deferred } = await ask($, "tool", { tool: e.tool, description: result.description })
    return deferred ? { ...result, isDeferred: true } : result
  }).catch(asItWas)

  on("session.compact", async ($, e, next) => {
    const isAsked = isOwn && e.agentId === undefined && e.trigger === "auto"
    const { messages, skip } = await compact($, e)
    if (messages) return { messages }
    isRefused = isAsked
    return skip || isAsked ? { skip: skip ?? "the server of Windlass did not answer" } : next(e)
  }).catch(asItWas)

  on("session.append", { door: "response" }, async ($, e, next) => {
    if (e.origin.model) models.set(e.agentId, e.origin.model)
    for (const block of e.message.content) if (block.type === "tool_use") calls.set(block.id, block)
    return next(e)
  }).catch(asItWas)

  on("session.append", { door: "tool-result" }, async ($, e, next) => {
    const content = []
    for (const block of e.message.content) content.push(await shorten($, e, block))
    const result = await next({ ...e, message: { ...e.message, content } })
    await askWithin($, e)
    return result
  }).catch(asItWas)
}
