"""What a fragment was drawn with before reaches the browser, where it was not sent in time."""

from __future__ import annotations

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session

from dashboard.unsent import UnsentMessages

FRAGMENT = "steps"


def block(*path: int) -> ForwardMsg:
    made = ForwardMsg()
    made.delta.add_block.allow_empty = True
    made.delta.fragment_id = FRAGMENT
    made.metadata.delta_path[:] = path
    return made


def reference(*path: int) -> ForwardMsg:
    made = ForwardMsg(ref_hash="what the browser has")
    made.metadata.delta_path[:] = path
    return made


def test_a_reference_keeps_the_container_that_it_goes_into() -> None:
    queue = UnsentMessages()
    for message in (block(0, 2), reference(0, 2, 0)):
        queue.enqueue(message)
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=[FRAGMENT])
    queue.enqueue(block(0, 2))
    left = [(list(one.metadata.delta_path), one.WhichOneof("type")) for one in queue.flush()]
    assert left == [([0, 2], "delta"), ([0, 2, 0], "ref_hash"), ([0, 2], "delta")]


def test_nothing_is_left_for_a_run_of_the_whole_page() -> None:
    queue = UnsentMessages()
    queue.enqueue(block(0, 2))
    queue.clear(retain_lifecycle_msgs=True)
    assert queue.is_empty()


def test_streamlit_still_makes_its_queue_by_the_name_that_is_replaced() -> None:
    assert issubclass(UnsentMessages, app_session.ForwardMsgQueue)
    assert "ForwardMsgQueue" in app_session.AppSession.__init__.__code__.co_names
