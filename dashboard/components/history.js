// One step back for each choice. Streamlit replaces the address when a person changes a widget, and
// adds an entry without the widgets' parameters when a page is left: back would skip the choice. Where
// a button opens a page it adds another one, the page that is left with the parameters of the next.
// Ticks of rows are kept with the step that they belong to: back leads to the page before, not from
// tick to tick.
const QUIET = "selected"
const LULL_MS = 1000
const LEAVING_MS = 3000

function changedKeys(search) {
  const [now, next] = [new URLSearchParams(location.search), new URLSearchParams(search)]
  const keys = new Set([...now.keys(), ...next.keys()])
  return [...keys].filter((key) => String(now.getAll(key)) !== String(next.getAll(key))).sort()
}

function keepSteps() {
  const history = window.history
  const push = history.pushState.bind(history)
  const replace = history.replaceState.bind(history)
  let [changedAt, changed, movedAt, left, isTouched, pushedAt] = [0, "", 0, null, false, 0]
  const moved = () => ([movedAt, isTouched, pushedAt] = [Date.now(), false, 0])
  for (const kind of ["pointerdown", "keydown"]) {
    window.addEventListener(kind, () => ([isTouched, pushedAt] = [true, 0]), true)
  }
  window.addEventListener("popstate", moved)
  history.replaceState = (state, title, url) => {
    // widgets write whole addresses; corrections of the server, after a step back, do not
    const isOfWidget = typeof url === "string" && url.startsWith(location.origin)
    const next = new URL(url ?? location.href, location.href)
    const keys = changedKeys(next.search)
    const now = Date.now()
    if (!isOfWidget || next.pathname !== location.pathname || !keys.length) {
      return replace(state, title, url)
    }
    const goesOn = String(keys) === changed && now - changedAt < LULL_MS // typing, dragging
    ;[changedAt, changed] = [now, String(keys)]
    const isOfPerson = isTouched && !goesOn && now - movedAt >= LEAVING_MS
    return isOfPerson ? push(state, title, url) : replace(state, title, url)
  }
  history.pushState = (state, title, url) => {
    const next = new URL(url ?? location.href, location.href)
    const now = Date.now()
    if (next.pathname === location.pathname) {
      const kept = new URLSearchParams(next.search)
      const keys = changedKeys(next.search)
      if (keys.every((key) => !kept.has(key))) {
        left = { url: location.href, at: now }
        return replace(state, title, url)
      }
      if (String(keys) === QUIET) return replace(state, title, url)
      // what the server corrects on a page that was just opened is no step of a person, however
      // late it comes: nothing was pressed since
      if (!isTouched) return replace(state, title, url)
      if (now - movedAt < LULL_MS) {
        left = { url: location.href, at: now }
        return replace(state, title, url)
      }
      if (now - pushedAt < LEAVING_MS) return replace(state, title, url) // the same press writes on
      pushedAt = now
    } else {
      const isPushed = now - pushedAt < LEAVING_MS // nothing was pressed since
      if (left && now - left.at < LEAVING_MS) replace(state, title, left.url)
      left = null
      moved()
      if (isPushed) return replace(state, title, url)
    }
    return push(state, title, url)
  }
  history.keepsSteps = true
}

if (!window.history.keepsSteps) keepSteps()
