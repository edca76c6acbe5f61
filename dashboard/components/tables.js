// Tables from the keyboard and read aloud: Enter presses the button of a cell, Space selects its row.
// A table is a canvas whose buttons answer the pointer alone: what a click calls is looked up where
// React keeps it.
const CELL = /^glide-cell-(\d+)-(\d+)$/
const STEP_PX = 8

function tableOf(cell) {
  let fiber = cell[Object.keys(cell).find((name) => name.startsWith("__reactFiber$"))]
  for (; fiber; fiber = fiber.return) {
    const [props, grid] = [fiber.memoizedProps, fiber.ref?.current]
    if (grid?.getBounds && props?.rowMarkers) return [props, grid]
  }
  return []
}

function pressButton([props, grid], column, row) {
  const bounds = props.onCellClicked && grid.getBounds(column, row)
  let isPressed = false
  const click = { bounds, localEventY: bounds?.height / 2, preventDefault: () => (isPressed = true) }
  for (let x = STEP_PX; x < bounds?.width && !isPressed; x += STEP_PX) {
    props.onCellClicked([column, row], { ...click, localEventX: x })
  }
  return isPressed
}

function driveTable(event) {
  const at = CELL.exec(event.target.id ?? "")
  const isPlain = !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey
  if (!at || !isPlain || !["Enter", " "].includes(event.key)) return
  const table = tableOf(event.target)
  if (!table.length) return
  const marker = table[0].rowMarkers.kind ?? table[0].rowMarkers
  const marks = marker === "none" ? 0 : 1
  if (event.key === " " && marks) {
    const options = { key: " ", code: "Space", keyCode: 32, shiftKey: true, bubbles: true }
    event.target.dispatchEvent(new KeyboardEvent("keydown", options)) // what selects a row in it
  } else if (!pressButton(table, at[1] - marks, Number(at[2]))) {
    return // it shows the whole text of the cell
  }
  event.preventDefault()
  event.stopPropagation()
}

// A table keeps Escape for itself, which closes the dialog that it is in.
function leaveDialog(event) {
  if (event.key !== "Escape") return
  const table = event.target.closest?.('[data-testid="data-grid-canvas"]')
  table?.closest('[role="dialog"]')?.querySelector('button[aria-label="Close"]')?.click()
}

// What a cell draws is read aloud as its data: a picture as its address, a line as all its figures.
const THOUSANDS = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/

function spoken(text) {
  if (text.startsWith("data:image")) return "bar"
  const figures = THOUSANDS.test(text) ? [NaN] : text.split(",").map((one) => (one ? Number(one) : NaN))
  if (figures.some(Number.isNaN)) return null
  const short = (one) => one.toLocaleString("en", { maximumFractionDigits: 2 })
  if (figures.length > 1) return `trend from ${short(figures[0])} to ${short(figures.at(-1))}`
  return /\.\d{3,}$/.test(text) ? short(figures[0]) : null
}

function nameCells(table) {
  const name = table.closest('[role="region"]')?.getAttribute("aria-label") ?? ""
  table.querySelector('[role="grid"]')?.setAttribute("aria-label", name)
  for (const cell of table.querySelectorAll('[role="gridcell"]')) {
    const text = spoken(cell.textContent)
    if (text === null) cell.removeAttribute("aria-label")
    else cell.setAttribute("aria-label", text)
  }
}

const named = new WeakSet()

function nameTables() {
  for (const table of document.querySelectorAll('[data-testid="data-grid-canvas"]')) {
    if (named.has(table)) continue
    named.add(table)
    const changes = new MutationObserver(() => nameCells(table))
    changes.observe(table, { childList: true, subtree: true, characterData: true })
    nameCells(table)
  }
}

if (!document.drivesTables) {
  document.drivesTables = true
  document.addEventListener("keydown", driveTable, true)
  document.addEventListener("keydown", leaveDialog, true)
  new MutationObserver(nameTables).observe(document.body, { childList: true, subtree: true })
  nameTables()
}
