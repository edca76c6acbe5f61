"""Messages to a browser that have not left yet, when a part of the page is drawn again."""

from __future__ import annotations

from streamlit.runtime.forward_msg_queue import ForwardMsgQueue


class UnsentMessages(ForwardMsgQueue):
    """The queue of a browser, which drops nothing that a part of the page was drawn with before.

    Streamlit drops what was not sent yet of a fragment that runs again, but for references to
    elements that the browser has: those do not say which fragment they are of. A reference into a
    container whose message was dropped stops the browser, and the window is white until it is
    reloaded (Streamlit 1.67, ``ForwardMsgQueue.clear``). That the same place is drawn twice costs
    a few bytes where it happens at all.
    """

    def clear(
        self,
        retain_lifecycle_msgs: bool = False,  # noqa: FBT001, FBT002  # Streamlit's signature
        fragment_ids_this_run: list[str] | None = None,
    ) -> None:
        """Drop the unsent messages, unless only fragments run again: nothing of it is composed."""
        if fragment_ids_this_run:
            self._delta_index_map = {}
        else:
            super().clear(retain_lifecycle_msgs, fragment_ids_this_run)
