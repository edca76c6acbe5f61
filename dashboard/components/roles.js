// Roles that assistive technology reads, where Streamlit's own do not hold together: its navigation
// has groups of links between a list and the items of it. Lines of code are scrolled by keys, too.
function mendRoles() {
  const items = document.querySelectorAll('[data-testid="stSidebarNavItems"]:not([role])')
  for (const list of items) list.setAttribute("role", "none")
  for (const item of document.querySelectorAll('[data-testid="stSidebarNavItems"] li:not([role])')) {
    item.setAttribute("role", "none")
  }
  for (const code of document.querySelectorAll('[data-testid="stCode"] pre:not([tabindex])')) {
    code.tabIndex = 0
  }
}

// A box that takes free text offers it as "Add: text" whatever it is; a time is gone to.
function nameTypedOptions() {
  for (const option of document.querySelectorAll('[role="option"]')) {
    const texts = document.createTreeWalker(option, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) {
      const typed = texts.currentNode.data.match(/^Add: (.+)$/s)?.[1]
      if (!typed) continue
      const isTime = document.querySelector('input[aria-label^="Time (UTC)"][aria-expanded="true"]')
      const label = isTime && /^[-\d]/.test(typed) ? `Go to ${typed} UTC` : `Use ${typed}`
      texts.currentNode.data = label.replace(/^Go to (-.*) UTC$/, "Go to $1")
    }
  }
}

// A list of choices lies over the page that shows the effect of a choice: it closes with the choice.
function closeLists(event) {
  const isEnter = event.type === "keydown" && event.key === "Enter"
  const isClick = event.type === "click" && event.target.closest?.('[role="option"]')
  const input = document.activeElement
  if (!(isEnter || isClick) || !input?.closest?.('[data-testid="stMultiSelect"]')) return
  setTimeout(() => input.blur(), 50) // once the choice is taken
}

// Popovers and dialogs are drawn outside of the app, which alone says whether it is light or dark:
// colours of light-dark() in them, and their scroll bars, go by the root.
const schemeChange = new MutationObserver(matchScheme)

function matchScheme() {
  const app = document.querySelector(".stApp")
  if (!app) return
  if (app !== document.schemeOf) {
    document.schemeOf = app
    schemeChange.disconnect()
    schemeChange.observe(app, { attributes: true, attributeFilter: ["class"] })
  }
  document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme
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
      nameTypedOptions()
      matchScheme()
      openAtTop()
    })
  }).observe(document.body, { childList: true, characterData: true, subtree: true })
  for (const kind of ["keydown", "click"]) document.addEventListener(kind, closeLists, true)
  mendRoles()
  matchScheme()
}
