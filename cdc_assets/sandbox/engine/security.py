"""Logins, users, roles and grants."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.sandbox.engine import entries as e
from cdc_assets.sandbox.engine.work import Work
from cdc_assets.sandbox.language import errors
from cdc_assets.sandbox.language import statements as s
from cdc_assets.sandbox.results import SqlError

if TYPE_CHECKING:
    from cdc_assets.sandbox.engine.session import EngineSession

_HANDLED = (s.CreateLogin, s.CreateUser, s.CreateRole, s.AlterRole, s.Grant)
_ROUNDS = 1000
FIXED_ROLES = ("db_owner", "db_datareader", "db_datawriter")
_PERMISSIONS = frozenset(
    {
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "ALTER",
        "CONTROL",
        "EXECUTE",
        "REFERENCES",
        "CONNECT",
        "VIEW DEFINITION",
        "VIEW DATABASE STATE",
    }
)


def handles(statement: s.Statement) -> bool:
    """Whether this room runs the statement."""
    return isinstance(statement, _HANDLED)


def new_login(
    name: str, password: str, *, administrator: bool = False, database: str = "master"
) -> e.Login:
    """A login with its password hashed."""
    salt = secrets.token_hex(8)
    return e.Login(name, salt, _digest(password, salt), administrator, database)


def verify(login: e.Login, password: str) -> bool:
    """Whether the password is the login's."""
    return hmac.compare_digest(login.digest, _digest(password, login.salt))


def _digest(password: str, salt: str) -> str:
    # HMAC fills short keys with zero bytes, so that a password and the same one followed by NULs
    # would be one; 0xFF is in no UTF-8.
    key = password.encode("utf-8", "surrogatepass").replace(b"\0", b"\xff")
    return hashlib.pbkdf2_hmac("sha256", key, salt.encode(), _ROUNDS).hex()


def apply(session: EngineSession, statement: s.Statement) -> None:
    """Run a statement about logins, users, roles or grants."""
    with session.writing() as work:
        if isinstance(statement, s.CreateLogin):
            _login(session, work, statement)
        elif isinstance(statement, s.CreateUser):
            _user(session, work, statement)
        elif isinstance(statement, s.CreateRole):
            _role(session, work, statement.name)
        elif isinstance(statement, s.AlterRole):
            _member(session, work, statement)
        elif isinstance(statement, s.Grant):
            _grant(session, work, statement)


def _login(session: EngineSession, work: Work, statement: s.CreateLogin) -> None:
    session.context.access.require_administrator("CREATE LOGIN")
    known = work.current.login(statement.name)
    if statement.alter:
        if known is None:
            raise SqlError(
                15151,
                f"Cannot alter the login '{statement.name}', because it does not "
                "exist or you do not have permission.",
            )
        salt = secrets.token_hex(8)
        changed = replace(known, salt=salt, digest=_digest(statement.password, salt))
        work.catalog = work.current.put(work.connection, changed)
        return
    if known is not None:
        raise SqlError(15025, f"The server principal '{statement.name}' already exists.")
    database = statement.default_database or "master"
    login = new_login(statement.name, statement.password, database=database)
    work.catalog = work.current.put(work.connection, login)


def _user(session: EngineSession, work: Work, statement: s.CreateUser) -> None:
    database = session.context.current
    session.context.access.require_owner(database.id, "CREATE USER")
    if work.current.login(statement.login) is None:
        raise SqlError(
            15007, f"'{statement.login}' is not a valid login or you do not have permission."
        )
    if work.current.principal(database.id, statement.name) is not None:
        raise SqlError(
            15023,
            f"User, group, or role '{statement.name}' already exists in the current database.",
        )
    user = e.Principal(database.id, statement.name, statement.login)
    work.catalog = work.current.put(work.connection, user)


def _role(session: EngineSession, work: Work, name: str) -> None:
    database = session.context.current
    session.context.access.require_owner(database.id, "CREATE ROLE")
    if work.current.principal(database.id, name) is not None:
        raise SqlError(
            15023, f"User, group, or role '{name}' already exists in the current database."
        )
    work.catalog = work.current.put(work.connection, e.Principal(database.id, name))


def _member(session: EngineSession, work: Work, statement: s.AlterRole) -> None:
    database = session.context.current
    session.context.access.require_owner(database.id, "ALTER ROLE")
    role = work.current.principal(database.id, statement.name)
    if role is None and statement.name.lower() in FIXED_ROLES:
        role = e.Principal(database.id, statement.name.lower())
    if role is None or role.login is not None:
        raise _no_principal("role", statement.name)
    if work.current.principal(database.id, statement.member) is None:
        raise _no_principal("user", statement.member)
    members = [m for m in role.members if m.lower() != statement.member.lower()]
    if statement.add:
        members.append(statement.member)
    work.catalog = work.current.put(work.connection, replace(role, members=tuple(members)))


def _no_principal(kind: str, name: str) -> SqlError:
    return SqlError(
        15151,
        f"Cannot find the {kind} '{name}', because it does not exist or you do not have "
        "permission.",
    )


def _grant(session: EngineSession, work: Work, statement: s.Grant) -> None:
    database = session.context.current
    session.context.access.require_owner(database.id, statement.kind)
    target = None
    columns = tuple(c.lower() for c in statement.columns)
    if statement.target is not None:
        table = session.context.find_table(statement.target)
        view = session.context.find_view(statement.target) if table is None else None
        if view is not None:
            table = view.as_table()
        if table is None:
            raise _no_principal("object", statement.target[-1])
        target = table.id
        for column in statement.columns:
            if table.column(column) is None:
                raise errors.invalid_column(column)
    if statement.schema is not None and statement.schema.lower() not in (
        name.lower() for name in (*database.schemas, "cdc")
    ):
        raise _no_principal("schema", statement.schema)
    for principal in statement.principals:
        if principal.lower() != "public" and (
            work.current.principal(database.id, principal) is None
        ):
            raise _no_principal("user", principal)
        for permission in statement.permissions:
            if permission not in _PERMISSIONS:
                raise errors.unsupported(f"{statement.kind} {permission}")
            entry = e.Permission(
                database.id,
                principal,
                permission,
                target,
                statement.schema,
                columns,
                statement.kind == "DENY",
            )
            _store_grant(work, statement, entry)


def _store_grant(work: Work, statement: s.Grant, entry: e.Permission) -> None:
    known = next((p for p in work.current.of_kind(e.Permission) if p.key == entry.key), None)
    if statement.kind == "REVOKE":
        if known is None:
            return
        left = tuple(c for c in known.columns if c not in entry.columns)
        if entry.columns and left:
            work.catalog = work.current.put(work.connection, replace(known, columns=left))
        else:
            work.catalog = work.current.drop(work.connection, known)
        return
    if known is not None and known.columns and entry.columns and not entry.denied:
        merged = tuple(dict.fromkeys((*known.columns, *entry.columns)))
        entry = replace(entry, columns=merged)
    work.catalog = work.current.put(work.connection, entry)
