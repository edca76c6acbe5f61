// Tables from the keyboard: Enter presses the button of a cell, Space selects its row. A table is a
// canvas whose buttons answer the pointer alone: what a click calls is looked up where React keeps it.
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

if (!document.drivesTables) {
  document.drivesTables = true
  document.addEventListener("keydown", driveTable, true)
}
