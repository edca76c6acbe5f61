"""The form of one policy: its fields as they are, to be changed into a wish."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import blake2s
from typing import TYPE_CHECKING, Final

import streamlit as st

from core.errors import OpsError
from core.plan.policy import PolicyWish
from core.plan.policy_kinds import UNLIMITED, policy_kind
from core.plan.policy_state import stored_policy
from dashboard.components import policy_changes, words
from dashboard.presenters import policy_wishes as presenter

if TYPE_CHECKING:
    from dashboard.components.frame import PageContext

_COLUMNS: Final = 2


def policy_form(
    page: PageContext, kind: str, name: str, *, delete: str = "Remove", new: bool = False
) -> None:
    """Draw the fields of a policy with what is stored, and the buttons that wish a change.

    Args:
        page: The page.
        kind: Of the policy.
        name: Of the policy, or of the namespace or bundle.
        delete: What taking it away is called.
        new: It is to be made: there is nothing to take away.
    """
    stored = stored_policy(page.reading.snapshot, kind, name) if name else None
    values = presenter.field_values(kind, stored)
    keys = {field: _key(kind, name, field, stored) for field in policy_kind(kind).fields}
    columns = st.columns(_COLUMNS, gap="small")
    for rank, (field, default) in enumerate(policy_kind(kind).fields.items()):
        with columns[rank % _COLUMNS]:
            _field(field, default, values.get(field, default), keys[field])
    policy_changes.draw_fault()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Add to the changes",
            icon=":material/add:",
            disabled=not name,
            key=f"_wish_{kind}",
            on_click=partial(_wish, kind, name, keys),
        )
        if not new:
            st.button(
                delete,
                icon=":material/delete:",
                type="tertiary",
                disabled=stored is None,
                help=None if stored else "It is not set.",
                key=f"_unwish_{kind}",
                on_click=policy_changes.wish,
                args=([PolicyWish(kind, name, None)],),
            )
        told = "not set until now" if stored is None else "filled in as it is now"
        st.caption(told if name else "Give it a name first.", width="content")


def _key(kind: str, name: str, field: str, stored: str | None) -> str:
    """Return the key of a field: what is stored is part of it, or a form kept its first values."""
    at = "" if stored is None else f"_{blake2s(stored.encode(), digest_size=4).hexdigest()}"
    return f"_field_{kind}_{name}_{field}{at}"


def _field(field: str, default: object, value: object, key: str) -> None:
    label = presenter.FIELD_WORDS.get(field, field)
    if isinstance(default, bool):
        st.toggle(label, value=bool(value), key=key, help=words.plain(field))
        return
    is_limit = default == UNLIMITED
    st.text_input(
        label,
        value=presenter.field_text(value),
        key=key,
        placeholder="no limit" if is_limit else None,
        help=words.plain(f"{field}; blank: no limit" if is_limit else field),
    )


def _wish(kind: str, name: str, keys: dict[str, str]) -> None:
    entered = {field: st.session_state.get(key, "") for field, key in keys.items()}
    try:
        value = presenter.document(kind, entered)
    except OpsError as error:
        policy_changes.refuse(error)
        return
    policy_changes.wish([PolicyWish(kind, name.strip(), value)])


def offered(names: Sequence[str], asked: str) -> list[str]:
    """Return names to choose from, with the one that the address names."""
    return list(dict.fromkeys([*([asked] if asked else []), *names]))
