"""What happened: recorded minute by minute, read back exactly, and replayed."""

import os

# what storage libraries log is for their makers; what goes wrong is said by errors of ours
os.environ.setdefault("RUST_LOG", "error")
