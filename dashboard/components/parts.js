// What pages are drawn with (charts, tables) is loaded while nothing else happens, so that opening
// one first shows no placeholder until it is there.
const PARTS = [__PARTS__]

const whenIdle = window.requestIdleCallback ?? setTimeout // Safari has none

function loadParts() {
  const entry = document.querySelector('script[type="module"][src*="/static/js/index."]')
  if (!entry) return
  const next = ([name, ...rest]) => {
    if (!name) return
    import(new URL(name, entry.src).href).catch(() => {}).finally(() => whenIdle(() => next(rest)))
  }
  whenIdle(() => next(PARTS))
}

if (!document.loadsParts) {
  document.loadsParts = true
  setTimeout(loadParts, 500)
}
