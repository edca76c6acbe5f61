"""Bring a table to its declared schema, or say precisely why it cannot be."""

from __future__ import annotations

import pyarrow as pa

from core.errors import SchemaError


def empty(schema: pa.Schema) -> pa.Table:
    """Return a table of that schema with no rows."""
    return schema.empty_table()


def conform(table: pa.Table, schema: pa.Schema, *, name: str) -> pa.Table:
    """Return ``table`` with exactly the columns, order, types and metadata of ``schema``.

    Unknown columns are dropped; a missing column is filled with nulls when the schema allows nulls.

    Args:
        table: Any table.
        schema: One of the declared schemas.
        name: The table's name, for the error.
    Raises:
        SchemaError: A required column is missing or holds nulls, or a value does not fit its type.
    """
    if table.schema.equals(schema, check_metadata=True) and not any(
        table.column(number).null_count for number, field in enumerate(schema) if not field.nullable
    ):
        return table
    columns = []
    for field in schema:
        index = table.schema.get_field_index(field.name)
        if index < 0:
            if not field.nullable:
                raise SchemaError(f"Table {name!r} has no column {field.name!r}.", table=name)
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(index)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
                raise SchemaError(
                    f"Column {field.name!r} of table {name!r} does not fit {field.type}: {exc}",
                    table=name,
                ) from exc
        if not field.nullable and column.null_count:
            raise SchemaError(f"Column {field.name!r} of table {name!r} has nulls.", table=name)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
