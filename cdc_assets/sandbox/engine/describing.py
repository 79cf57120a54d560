"""sp_describe_first_result_set and sp_describe_undeclared_parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc_assets.sandbox.engine import deduction, systypes
from cdc_assets.sandbox.engine import rows as made
from cdc_assets.sandbox.engine.procedures import Call, Run, declared_types
from cdc_assets.sandbox.engine.systypes import precision_of, scale_of
from cdc_assets.sandbox.language import collation, errors, nodes, types, values
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language.parser import parse_batch
from cdc_assets.sandbox.language.tokens import VARIABLE, tokenize
from cdc_assets.sandbox.results import MAX_LENGTH, Result, ResultColumn, SqlType

_USER_TYPE = (
    "{0}user_type_id int, {0}user_type_database sysname, {0}user_type_schema sysname, "
    "{0}user_type_name sysname, {0}assembly_qualified_type_name nvarchar(4000), "
    "{0}xml_collection_id int, {0}xml_collection_database sysname, "
    "{0}xml_collection_schema sysname, {0}xml_collection_name sysname, {0}is_xml_document bit, "
    "{0}is_case_sensitive bit, {0}is_fixed_length_clr_type bit"
)
_RESULT = made.described(
    "is_hidden bit, column_ordinal int, name sysname, is_nullable bit, system_type_id int, "
    "system_type_name nvarchar(256), max_length smallint, precision tinyint, scale tinyint, "
    f"collation_name sysname, {_USER_TYPE.format('')}, source_server sysname, "
    "source_database sysname, source_schema sysname, source_table sysname, "
    "source_column sysname, is_identity_column bit, is_part_of_unique_key bit, "
    "is_updateable bit, is_computed_column bit, is_sparse_column_set bit, "
    "ordinal_in_order_by_list smallint, order_by_list_length smallint, "
    "order_by_is_descending smallint, tds_type_id int, tds_length int, tds_collation_id int, "
    "tds_collation_sort_id tinyint"
)
_PARAMETERS = made.described(
    "parameter_ordinal int, name sysname, suggested_system_type_id int, "
    "suggested_system_type_name nvarchar(256), suggested_max_length smallint, "
    f"suggested_precision tinyint, suggested_scale tinyint, {_USER_TYPE.format('suggested_')}, "
    "suggested_is_input bit, suggested_is_output bit, formal_parameter_name sysname, "
    "suggested_tds_type_id int, suggested_tds_length int"
)
# MS-TDS's type ids: of a value that may be NULL, and of one that may not where that differs.
_NULLABLE_IDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), 38),
    **dict.fromkeys(("money", "smallmoney"), 110),
    **dict.fromkeys(("datetime", "smalldatetime"), 111),
    **dict.fromkeys(("float", "real"), 109),
    "bit": 104,
    "rowversion": 173,
}
_FIXED_IDS = {"bit": 50}
_MAX_TDS_LENGTH = 65_535


def _tds(kind: SqlType, *, nullable: bool) -> tuple[int, int]:
    number = systypes.system_type_id(kind)
    if kind.name in _NULLABLE_IDS:
        number = _NULLABLE_IDS[kind.name] if nullable else _FIXED_IDS.get(kind.name, number)
    length = systypes.max_length(kind)
    return number, _MAX_TDS_LENGTH if length == MAX_LENGTH else length


def _described(kind: SqlType) -> tuple[object, ...]:
    """What both procedures say of a type: id, name, length, precision, scale."""
    shown = "timestamp" if kind.name == "rowversion" else str(kind)
    return (
        systypes.system_type_id(kind),
        shown,
        systypes.max_length(kind),
        precision_of(kind),
        scale_of(kind),
    )


def _flags(kind: SqlType) -> tuple[object, ...]:
    """No user type, no XML schema; whether case counts."""
    cased = kind.name in types.STRINGS and not collation.ignores_case(kind)
    return (*([None] * 9), False, cased, False)


def _first_result_set(call: Call) -> Iterator[Result]:
    """sp_describe_first_result_set: the columns that the batch's first result set will have."""
    call.declare("@tsql", "@params", "@browse_information_mode")
    if call.number("@browse_information_mode", 0):
        raise errors.unsupported("sp_describe_first_result_set with browse information")
    kinds = declared_types(call.text("@params") or "")
    saved = call.context.variables
    call.context.variables = {name: values.null(kind) for name, kind in kinds.items()}
    try:
        columns = _first_columns(call, parse_batch(call.required("@tsql")))
    finally:
        call.context.variables = saved
    rows = []
    for place, column in enumerate(columns, start=1):
        kind = column.type
        collated = kind.collation if kind.name in types.STRINGS else None
        tds = _tds(kind, nullable=column.nullable)
        rows.append(
            (
                *(False, place, column.name or None, column.nullable, *_described(kind), collated),
                *_flags(kind),
                *([None] * 5),
                *(False, None, False, False, False, None, None, None),
                *(*tds, None, None),
            )
        )
    yield made.result(_RESULT, rows)


def _first_columns(call: Call, statements: Sequence[s.Statement]) -> tuple[ResultColumn, ...]:
    for statement in statements:
        if isinstance(statement, s.Declare):
            call.context.variables[statement.name.lower()] = values.null(statement.type)
            continue
        if isinstance(statement, s.Block):
            found = _first_columns(call, statement.body)
            if found:
                return found
            continue
        if isinstance(statement, (s.If, s.While, s.TryCatch, s.Execute)):
            raise errors.unsupported(f"A description of {type(statement).__name__}")
        if getattr(statement, "output", ()):
            raise errors.unsupported("A description of an OUTPUT clause")
        if isinstance(statement, s.QueryStatement) and _gives_rows(statement.query.body):
            return call.session.binder().query(statement.query).columns
    return ()


def _gives_rows(body: nodes.Node) -> bool:
    if not isinstance(body, nodes.Select):
        return True
    return body.into is None and not any(item.assign for item in body.items)


def _undeclared_parameters(call: Call) -> Iterator[Result]:
    """sp_describe_undeclared_parameters: a type for each parameter that @params leaves out."""
    call.declare("@tsql", "@params")
    text = call.required("@tsql")
    kinds = declared_types(call.text("@params") or "")
    names = [token.text for token in tokenize(text) if token.kind == VARIABLE]
    names = [n for n in names if not n.startswith("@@") and n.lower() not in kinds]
    saved = call.context.variables
    call.context.variables = {name: values.null(kind) for name, kind in kinds.items()}
    try:
        found = deduction.deduce(call.context, parse_batch(text), names)
    finally:
        call.context.variables = saved
    rows = []
    for place, (name, kind) in enumerate(found, start=1):
        tds = _tds(kind, nullable=True)
        rows.append((place, name, *_described(kind), *_flags(kind), True, False, None, *tds))
    yield made.result(_PARAMETERS, rows)


PROCEDURES: dict[str, Run] = {
    "sp_describe_first_result_set": _first_result_set,
    "sp_describe_undeclared_parameters": _undeclared_parameters,
}
