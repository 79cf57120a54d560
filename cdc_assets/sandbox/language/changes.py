"""The parser's INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from abc import abstractmethod

from cdc_assets.sandbox.language import errors, nodes
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.definitions import DefinitionParser


class ChangeParser(DefinitionParser):
    """Reads the statements that change rows."""

    @abstractmethod
    def execute(self) -> s.Execute:
        """EXEC of a procedure or of a text."""

    def _target(self) -> s.Name:
        if self.token.kind == t.VARIABLE:
            return (self.variable(),)
        name = self.object_name()
        self._hints()
        return name

    def insert(self) -> s.Insert:
        """INSERT."""
        self.expect("INSERT")
        if self.accept("BULK"):
            raise errors.unsupported("INSERT BULK")
        self.accept("INTO")
        target = self._target()
        columns = self.name_list() if self.at("(") and not self._holds_query() else ()
        output = self._output()
        if self.accept_phrase("DEFAULT", "VALUES"):
            return s.Insert(target, columns, None, output)
        if self.accept("VALUES"):
            return s.Insert(target, columns, self.values_rows(), output)
        if self.at("EXEC", "EXECUTE"):
            return s.Insert(target, columns, self.execute(), output)
        return s.Insert(target, columns, self.query(), output)

    def _output(self) -> tuple[nodes.SelectItem, ...]:
        if not self.accept("OUTPUT"):
            return ()
        items = self.select_items()
        if self.at("INTO"):
            raise errors.unsupported("OUTPUT … INTO")
        return items

    def update(self, tables: tuple[nodes.CommonTable, ...] = ()) -> s.Update:
        """UPDATE, after its WITH if there is one."""
        self.expect("UPDATE")
        top = self.top()
        target = self._target()
        self.expect("SET")
        assignments = self._assignments()
        output = self._output()
        source = self.table_sources() if self.accept("FROM") else None
        where = self.condition() if self.accept("WHERE") else None
        return s.Update(target, assignments, source, where, tables, top, output)

    def _assignments(self) -> tuple[tuple[str, nodes.Node], ...]:
        found = []
        while True:
            parts = self.object_name()
            op = self.expect("=", "+=", "-=", "*=", "/=", "%=")
            value = self._value_item()
            if op != "=":
                value = nodes.Arithmetic(op[0], nodes.Column(parts), value)
            found.append((parts[-1], value))
            if not self.accept(","):
                return tuple(found)

    def delete(self, tables: tuple[nodes.CommonTable, ...] = ()) -> s.Delete:
        """DELETE, after its WITH if there is one."""
        self.expect("DELETE")
        top = self.top()
        self.accept("FROM")
        target = self._target()
        output = self._output()
        source = self.table_sources() if self.accept("FROM") else None
        where = self.condition() if self.accept("WHERE") else None
        return s.Delete(target, source, where, tables, top, output)

    def merge(self, tables: tuple[nodes.CommonTable, ...] = ()) -> s.Merge:
        """MERGE, after its WITH if there is one."""
        self.expect("MERGE")
        self.accept("INTO")
        target = self._target()
        alias = self._table_alias() if not self.at("USING") else None
        self.expect("USING")
        source = self._table()
        self.expect("ON")
        condition = self.condition()
        actions = []
        while self.accept("WHEN"):
            actions.append(self._merge_action())
        if self.at("OUTPUT"):
            raise errors.unsupported("OUTPUT of a MERGE")
        if not self.at(";"):
            raise errors.syntax("MERGE")  # T-SQL wants the semicolon here
        return s.Merge(target, alias, source, condition, tuple(actions), tables)

    def _merge_action(self) -> s.MergeAction:
        kind = "not_matched" if self.accept("NOT") else "matched"
        self.expect("MATCHED")
        if kind == "not_matched" and self.accept("BY"):
            kind = "not_matched" if self.expect("TARGET", "SOURCE") == "TARGET" else "by_source"
        condition = self.condition() if self.accept("AND") else None
        self.expect("THEN")
        if kind == "not_matched":
            self.expect("INSERT")
            columns = self.name_list() if self.at("(") else ()
            self.expect("VALUES")
            (row,) = self.values_rows().rows
            return s.MergeAction("not_matched", condition, "INSERT", (), columns, row)
        matched = kind == "matched"
        if self.accept("DELETE"):
            return s.MergeAction(
                "matched" if matched else "not_matched_by_source", condition, "DELETE"
            )
        self.expect_phrase("UPDATE", "SET")
        return s.MergeAction(
            "matched" if matched else "not_matched_by_source",
            condition,
            "UPDATE",
            self._assignments(),
        )

    def truncate(self) -> s.Statement:
        """TRUNCATE TABLE."""
        self.expect_phrase("TRUNCATE", "TABLE")
        return s.Truncate(self.object_name())
