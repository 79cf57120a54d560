"""GRANT, DENY and REVOKE."""

from __future__ import annotations

from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.language import tokens as t
from cdc_assets.sandbox.language.queries import QueryParser


class PermissionParser(QueryParser):
    """Reads statements about permissions."""

    def grant(self, kind: str) -> s.Statement:
        """What follows GRANT, DENY or REVOKE."""
        permissions, columns = self._permissions()
        target = schema = None
        if self.accept("ON"):
            if self.accept_phrase("SCHEMA", "::"):
                schema = self.identifier()
            else:
                self.accept_phrase("OBJECT", "::")
                target = self.object_name()
                if self.at("("):
                    columns = self.name_list()
        self.expect("TO", "FROM")
        principals = [self._principal()]
        while self.accept(","):
            principals.append(self._principal())
        if self.accept_phrase("WITH", "GRANT"):
            self.expect("OPTION")
        return s.Grant(
            "GRANT" if kind == "GRANT" else "DENY" if kind == "DENY" else "REVOKE",
            permissions,
            target,
            schema,
            columns,
            tuple(principals),
        )

    def _principal(self) -> str:
        if self.accept("PUBLIC"):
            return "public"
        return self.identifier()

    def _permissions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        permissions = []
        columns: tuple[str, ...] = ()
        while True:
            words = []
            while self.token.kind == t.WORD and not self.at("ON", "TO", "FROM"):
                words.append(self.advance().upper)
            if not words:
                self.fail()
            permissions.append(" ".join(words))
            if self.at("("):
                columns = self.name_list()
            if not self.accept(","):
                return tuple(permissions), columns
