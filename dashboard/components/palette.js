// The command palette: opens at once in the browser, searches what it has, and asks the server for
// objects of the snapshot. Keys typed in it never reach the page, whose own shortcuts rerun it.
const SHOWN = 8
const WAIT_MS = 120
// A choice that is sent while the page draws itself is lost with the fragment it was sent for.
const RETRY_MS = 1500
const ATTEMPTS = 5
const panels = new WeakMap()

// Streamlit keeps a theme per path that a tab was opened with: it is set for all of them
function setTheme(name, pages) {
  const base = location.pathname.replace(/[^/]*$/, "")
  for (const page of ["", ...pages]) {
    localStorage.setItem(`stActiveTheme-${base}${page}-v2`, JSON.stringify(name))
  }
  location.reload()
}

function isTyping(event) {
  const target = event.composedPath()[0]
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName ?? "")
}

function rank(item, words) {
  const name = item.name.toLowerCase()
  const text = `${name} ${item.detail.toLowerCase()}`
  if (!words.every((word) => text.includes(word))) return -1
  const query = words.join(" ")
  return name === query ? 0 : name.startsWith(query) ? 1 : name.includes(query) ? 2 : 3
}

function setUp(root, panel) {
  const [dialog, help] = [root.querySelector("#palette"), root.querySelector("#shortcuts")]
  const [input, list] = [root.querySelector("input"), root.querySelector("ul")]
  let [timer, query, chosen, isEntered, opener] = [0, "", 0, false, null]

  const isPending = () => query.length > 1 && panel.data.query !== query
  const found = () => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean)
    const own = JSON.parse(panel.data.items)
      .map((item) => [rank(item, words), item])
      .filter(([order]) => order >= 0)
      .sort((one, other) => one[0] - other[0])
    const objects = panel.data.query === query ? panel.data.hits : []
    const exact = own.filter(([order]) => order < 2).map(([, item]) => item)
    const rest = own.filter(([order]) => order >= 2).map(([, item]) => item)
    return [...exact, ...objects, ...rest].slice(0, SHOWN)
  }
  const open = (which) => {
    if (which === dialog && dialog.open) input.select()
    if (which.open || root.ownerDocument.querySelector('[role="dialog"]')) return
    opener = root.ownerDocument.activeElement
    which.showModal()
    if (which === dialog) {
      input.value = query = ""
      chosen = 0
      draw()
      input.focus()
    }
  }
  const choose = (item) => {
    if (item.kind === "theme") return setTheme(item.name.split(" ")[0], panel.data.pages)
    opener = null // what opens takes the focus
    document.openedAt = Date.now()
    dialog.close()
    const choice = { id: item.id, at: Date.now() }
    const send = (attempts) => {
      if (panel.data.opened === choice.at || !attempts) return
      panel.send("chosen", choice)
      panel.retry = setTimeout(send, RETRY_MS, attempts - 1)
    }
    clearTimeout(panel.retry)
    send(ATTEMPTS)
  }
  const draw = () => {
    const items = found()
    chosen = Math.max(0, Math.min(chosen, items.length - 1))
    list.replaceChildren(
      ...items.map((item, index) => {
        const row = document.createElement("li")
        row.id = `option-${index}`
        row.setAttribute("role", "option")
        row.setAttribute("aria-selected", String(index === chosen))
        for (const [part, text] of [["icon", item.icon], ["name", item.name], ["detail", item.detail], ["kind", item.kind]]) {
          const cell = document.createElement("span")
          cell.className = part
          cell.textContent = text
          if (part === "icon") cell.setAttribute("aria-hidden", "true")
          row.append(cell)
        }
        row.onmousemove = () => {
          if (chosen !== index) mark(index)
        }
        row.onclick = () => choose(item)
        return row
      }),
    )
    root.querySelector("#none").hidden = items.length > 0 || isPending()
    mark(chosen)
    if (isEntered && !isPending()) {
      isEntered = false
      if (items.length) choose(items[chosen])
    }
  }
  const mark = (index) => {
    chosen = index
    for (const [at, row] of [...list.children].entries()) {
      row.setAttribute("aria-selected", String(at === chosen))
    }
    input.setAttribute("aria-activedescendant", list.children.length ? `option-${chosen}` : "")
  }

  input.oninput = () => {
    query = input.value.trim()
    chosen = 0
    isEntered = false
    clearTimeout(timer)
    if (query.length > 1) timer = setTimeout(() => panel.set("query", query), WAIT_MS)
    draw()
  }
  dialog.onkeydown = (event) => {
    event.stopPropagation()
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) {
      event.preventDefault()
      mark((chosen + step + list.children.length) % Math.max(1, list.children.length))
    } else if (event.key === "Enter") {
      event.preventDefault()
      isEntered = true
      draw()
    }
  }
  help.onkeydown = (event) => event.stopPropagation()
  for (const one of [dialog, help]) {
    one.onclick = (event) => {
      if (event.target === one) one.close() // the backdrop
    }
    one.onclose = () => opener?.focus?.()
  }
  help.querySelector("button").onclick = () => help.close()
  root.querySelector("#open").onclick = () => open(dialog)

  panel.draw = () => {
    if (dialog.open) draw()
  }
  panel.listen = (event) => {
    const isCommand = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k"
    if (isCommand) {
      event.preventDefault()
      event.stopPropagation()
      open(dialog)
    } else if (!isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      if (event.key === "/") {
        event.preventDefault()
        open(dialog)
      } else if (event.key === "?") {
        event.preventDefault()
        open(help)
      }
    }
  }
  document.addEventListener("keydown", panel.listen, true)
  root.querySelector("#open").classList.add("ready") // before, its keys would reach the page
}

export default function (component) {
  const root = component.parentElement
  let panel = panels.get(root)
  const isNew = !panel
  if (isNew) panels.set(root, (panel = {}))
  panel.data = component.data
  panel.set = component.setStateValue
  panel.send = component.setTriggerValue
  if (isNew) setUp(root, panel)
  panel.draw()
  return () => {
    document.removeEventListener("keydown", panel.listen, true)
    clearTimeout(panel.retry)
    panels.delete(root)
  }
}
