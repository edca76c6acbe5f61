"""The word mark, drawn in one colour that reads on light and dark."""

from __future__ import annotations

from typing import Final

LOGO: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 132 32" width="132" height="32">'
    '<g fill="none" stroke="#2b8aa3" stroke-width="2.4" stroke-linecap="round" '
    'stroke-linejoin="round">'
    '<path d="M4 21 L26 21"/><path d="M4 21 L15 6 L26 21"/><path d="M15 6 L15 21"/>'
    '<path d="M20 27 L28 23.5"/></g>'
    '<text x="38" y="22" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '
    'font-size="20" font-weight="600" letter-spacing="0.2" fill="#2b8aa3">Trimtab</text></svg>'
)
"""A sail over its water line, with the small tab that steers it."""

MARK: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">'
    '<g fill="none" stroke="#2b8aa3" stroke-width="2.8" stroke-linecap="round" '
    'stroke-linejoin="round"><path d="M4 21 L26 21"/><path d="M4 21 L15 6 L26 21"/>'
    '<path d="M15 6 L15 21"/><path d="M20 27 L28 23.5"/></g></svg>'
)
"""The mark alone, for the browser's tab."""
