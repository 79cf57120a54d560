"""LOGIN7: what a client asks for, and the tokens that let it in (MS-TDS 2.2.6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_assets.sandbox.results import Message, SqlError
from cdc_assets.sandbox.wire import tokens
from cdc_assets.sandbox.wire.byte_reader import ByteReader
from cdc_assets.sandbox.wire.collations import collation_bytes
from cdc_assets.sandbox.wire.errors import ProtocolError
from cdc_assets.sandbox.wire.limits import (
    DEFAULT_PACKET_BYTES,
    MAX_PACKET_BYTES,
    MIN_PACKET_BYTES,
)

TDS_7_3 = 0x730B0003
TDS_7_4 = 0x74000004
TDS_8 = 0x08000000
_OLDEST = 0x730A0003
_TDS_7_2 = 0x72090002

_FIXED_BYTES = 94
_OFFSETS_AT = 36
_TEXTS = (
    "host",
    "user",
    "password",
    "application",
    "server",
    "extension",
    "library",
    "language",
    "database",
)
_INTEGRATED_SECURITY = 0x80
_CHANGE_PASSWORD = 0x01
_EXTENSION = 0x10
_FEATURES_END = 0xFF
_FEDERATED = 0x02
_LOGIN_FAILED = 18456


@dataclass(frozen=True, slots=True)
class Login:
    """A parsed LOGIN7."""

    user: str
    password: str
    database: str
    application: str
    tds_version: int
    packet_bytes: int
    features: frozenset[int]
    integrated: bool
    changes_password: bool

    def __repr__(self) -> str:
        # The password must not reach a log through a traceback or a debug line.
        return f"Login(user={self.user!r}, database={self.database!r})"


def parse_login(data: bytes) -> Login:
    """Read a LOGIN7 message; `ProtocolError` where it is malformed."""
    if len(data) < _FIXED_BYTES:
        raise ProtocolError("LOGIN7 is too short")
    head = ByteReader(data)
    head.u32()  # its length; the packets said it already
    version, packet_bytes = head.u32(), head.u32()
    flags2, flags3 = data[25], data[27]
    texts = {}
    places = ByteReader(data, _OFFSETS_AT)
    extension = 0
    for name in _TEXTS:
        offset, length = places.u16(), places.u16()
        if name == "extension":
            extension = offset
            continue
        raw = ByteReader(data, offset).take(2 * length)
        if name == "password":
            raw = _clear(raw)
        texts[name] = ByteReader(raw).utf16(len(raw))
    return Login(
        user=texts["user"],
        password=texts["password"],
        database=texts["database"],
        application=texts["application"],
        tds_version=version,
        packet_bytes=packet_bytes,
        features=_features(data, extension) if flags3 & _EXTENSION else frozenset(),
        integrated=bool(flags2 & _INTEGRATED_SECURITY),
        changes_password=bool(flags3 & _CHANGE_PASSWORD),
    )


def check_supported(login: Login) -> None:
    """`SqlError` for kinds of login the sandbox does not offer."""
    if login.integrated:
        text = "Login failed. The sandbox knows SQL logins only, no integrated authentication."
        raise SqlError(18452, text, severity=14)
    if _FEDERATED in login.features:
        text = "Login failed. The sandbox knows SQL logins only, no federated authentication."
        raise SqlError(_LOGIN_FAILED, text, severity=14)
    if login.changes_password:
        text = "Login failed. The sandbox does not change passwords at login."
        raise SqlError(_LOGIN_FAILED, text, severity=14)
    if login.tds_version != TDS_8 and login.tds_version < _OLDEST:
        text = f"Login failed. TDS version {login.tds_version:#010x} is older than 7.3."
        raise SqlError(_LOGIN_FAILED, text, severity=14)


def negotiated_packet_bytes(login: Login, largest: int) -> int:
    """The packet size asked for, within what the connection can carry."""
    asked = login.packet_bytes
    if not MIN_PACKET_BYTES <= asked <= MAX_PACKET_BYTES:
        asked = DEFAULT_PACKET_BYTES
    return min(asked, largest)


def login_answer(login: Login, database: str, packet_bytes: int) -> bytes:
    """Everything after a successful login, up to its DONE."""
    if login.tds_version == TDS_8:
        version = TDS_8
    else:
        version = TDS_7_4 if login.tds_version >= TDS_7_4 else TDS_7_3
    change, short = tokens.environment_change, tokens.short_text
    parts = [
        tokens.database_change(database, "master"),
        change(tokens.Change.COLLATION, b"\x05" + collation_bytes(None), b"\x00"),
        change(tokens.Change.LANGUAGE, short("us_english"), short("")),
        tokens.info(Message(5703, "Changed language setting to us_english.")),
        tokens.login_acknowledgement(version),
        change(
            tokens.Change.PACKET_SIZE, short(str(packet_bytes)), short(str(DEFAULT_PACKET_BYTES))
        ),
    ]
    if login.features:
        parts.append(tokens.feature_acknowledgement({}))
    parts.append(tokens.done(tokens.DoneToken.DONE, tokens.DoneStatus.FINAL))
    return b"".join(parts)


def login_refusal(problem: SqlError, login: Login) -> bytes:
    """The tokens of a refused login, in its version's form.

    18456 follows any other error, as SQL Server does it.
    """
    problems = [problem]
    if problem.number not in (_LOGIN_FAILED, 18452):
        text = f"Login failed for user '{login.user}'."
        problems.append(SqlError(_LOGIN_FAILED, text, severity=14))
    if login.tds_version != TDS_8 and login.tds_version < _TDS_7_2:
        return b"".join(map(tokens.old_error, problems)) + tokens.OLD_DONE_WITH_ERROR
    done = tokens.done(tokens.DoneToken.DONE, tokens.DoneStatus.ERROR)
    return b"".join(map(tokens.error, problems)) + done


def _clear(raw: bytes) -> bytes:
    """LOGIN7 hides a password by xor and swapped nibbles; it is no secret on the wire."""
    return bytes((byte ^ 0xA5) << 4 & 0xF0 | (byte ^ 0xA5) >> 4 for byte in raw)


def _features(data: bytes, extension: int) -> frozenset[int]:
    reader = ByteReader(data, ByteReader(data, extension).u32())
    features = set()
    while (feature := reader.u8()) != _FEATURES_END:
        features.add(feature)
        reader.take(reader.u32())
    return frozenset(features)
