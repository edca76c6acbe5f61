"""A snapshot out of what operators have: outputs of ``pulsar-admin``, metrics, dumps.

| module | about |
|---|---|
| ``kinds`` | what a file holds, by its content |
| ``gather`` | which broker and namespace it is about; readings of one cluster |
| ``build`` | the snapshot, and what is lacking |

A further form: its test in ``kinds``, its case in ``gather``, and a file in
``tests/unit/connectors/pulsar/outputs/test_outputs.py``.
"""

from connectors.pulsar.outputs.build import ImportResult, import_outputs

__all__ = ["ImportResult", "import_outputs"]
