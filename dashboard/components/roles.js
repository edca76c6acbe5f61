// Roles that assistive technology reads, where Streamlit's own do not hold together: its navigation
// has groups of links between a list and the items of it.
function mendRoles() {
  const items = document.querySelectorAll('[data-testid="stSidebarNavItems"]:not([role])')
  for (const list of items) list.setAttribute("role", "none")
  for (const item of document.querySelectorAll('[data-testid="stSidebarNavItems"] li:not([role])')) {
    item.setAttribute("role", "none")
  }
}

// A page opens at its top, whatever of the one before was in sight. Where what had the focus is gone
// with that one, the heading takes it: keys go on from there, and it is read aloud.
const OPENING_MS = 10000
const viewOf = () => `${location.pathname} ${new URLSearchParams(location.search).get("run")}`
let view = viewOf()

function openAtTop() {
  if (view !== viewOf()) {
    view = viewOf()
    document.openedAt = Date.now()
    document.querySelector('[data-testid="stMain"]')?.scrollTo(0, 0)
  }
  const isOpening = Date.now() - (document.openedAt ?? 0) < OPENING_MS
  const heading = isOpening && document.querySelector('[data-testid="stMain"] h1')
  const isLost = (document.activeElement ?? document.body) === document.body
  if (!heading || !isLost || document.querySelector('[role="dialog"]')) return
  heading.tabIndex = -1
  heading.focus({ preventScroll: true })
}

if (!document.mendsRoles) {
  document.mendsRoles = true
  let isDue = false
  new MutationObserver(() => {
    if (isDue) return
    isDue = true
    requestAnimationFrame(() => {
      isDue = false
      mendRoles()
      openAtTop()
    })
  }).observe(document.body, { childList: true, subtree: true })
  mendRoles()
}
