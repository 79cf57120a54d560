"""One connection, from its first byte to its last, on a thread of its own."""

from __future__ import annotations

import decimal
import logging
import socket
import ssl
from dataclasses import dataclass

from cdc_assets.sandbox.results import Backend, ResultColumn, Session, SqlError
from cdc_assets.sandbox.wire import tokens
from cdc_assets.sandbox.wire.channels import Incoming, PlainChannel, TlsChannel, close_abruptly
from cdc_assets.sandbox.wire.errors import Attention, ProtocolError
from cdc_assets.sandbox.wire.limits import (
    MAX_LOGIN_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PACKET_BYTES,
    MAX_TLS_PACKET_BYTES,
)
from cdc_assets.sandbox.wire.login import (
    Login,
    check_supported,
    login_answer,
    login_refusal,
    negotiated_packet_bytes,
    parse_login,
)
from cdc_assets.sandbox.wire.packets import (
    Channel,
    ClientMessage,
    PacketStatus,
    PacketType,
    PacketWriter,
    receive_message,
)
from cdc_assets.sandbox.wire.prelogin import (
    Encryption,
    agree_on_encryption,
    parse_prelogin,
    prelogin_answer,
    wants_mars,
)
from cdc_assets.sandbox.wire.requests import parse_batch, parse_calls, parse_transaction_call
from cdc_assets.sandbox.wire.responses import ResponseHooks, ResponseWriter
from cdc_assets.sandbox.wire.rpc import StatementRunner
from cdc_assets.sandbox.wire.tokens import Change, DoneStatus, DoneToken
from cdc_assets.sandbox.wire.transactions import TransactionManager
from cdc_assets.sandbox.wire.watcher import RunningRequest, Watcher

_log = logging.getLogger(__name__)
_TLS_HANDSHAKE = 0x16
_RESET = PacketStatus.RESET_CONNECTION | PacketStatus.RESET_CONNECTION_KEEP_TRANSACTION
_DECIMAL_DIGITS = 60
_INCORRECT_STREAM = (
    "The incoming tabular data stream (TDS) protocol stream is incorrect. The stream ended "
    "unexpectedly."
)


@dataclass(frozen=True, slots=True)
class Environment:
    """What all connections of a server share."""

    backend: Backend
    tls_inside_packets: ssl.SSLContext
    tls_first: ssl.SSLContext
    watcher: Watcher


class Connection:
    """Serves one client until it leaves, breaks the protocol or is closed."""

    def __init__(self, sock: socket.socket, process_id: int, environment: Environment) -> None:
        self._socket = sock
        self._process_id = process_id
        self._environment = environment
        self._incoming = Incoming(sock)
        self._channel: Channel = PlainChannel(self._incoming)
        self._writer = PacketWriter(self._channel, process_id)
        self._largest_packet = MAX_PACKET_BYTES

    def run(self) -> None:
        """The whole life of the connection; never raises."""
        # Contexts are per thread: the default of 28 digits would round decimal(38) silently.
        decimal.setcontext(decimal.Context(prec=_DECIMAL_DIGITS))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            login = parse_login(self._greet())
            session = self._log_in(login)
            if session is not None:
                self._incoming.admit()
                self._serve(session)
        except ConnectionAbortedError:
            close_abruptly(self._socket)
        except ProtocolError as error:
            _log.warning("connection %d: not TDS: %s", self._process_id, error)
        except OSError as error:
            _log.debug("connection %d ended: %s", self._process_id, error)
        except Exception:  # noqa: BLE001 - logged
            _log.exception("connection %d failed", self._process_id)
        finally:
            self._socket.close()

    def close(self) -> None:
        """End the connection from another thread."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already

    def _greet(self) -> bytes:
        """Agree on encryption; what LOGIN7 then says."""
        strict = self._incoming.peek() == bytes([_TLS_HANDSHAKE])
        if strict:
            channel = TlsChannel(self._incoming, self._environment.tls_first)
            channel.handshake_directly()
            self._use(channel)
        message = receive_message(self._channel, MAX_LOGIN_MESSAGE_BYTES)
        if message.type == PacketType.LOGIN7 and not strict:
            return message.data  # TDS 7.0 has no PRELOGIN; that it is too old is said there
        if message.type != PacketType.PRELOGIN:
            raise ProtocolError(f"{message.type.name} where PRELOGIN was due")
        options = parse_prelogin(message.data)
        encryption = agree_on_encryption(options)
        if strict:
            encryption = Encryption.ON
        self._writer.write(prelogin_answer(encryption, mars_wanted=wants_mars(options)))
        self._writer.end_message()
        if encryption == Encryption.ON and not strict:
            self._start_tls()
        return self._receive(PacketType.LOGIN7).data

    def _start_tls(self) -> None:
        channel = TlsChannel(self._incoming, self._environment.tls_inside_packets)
        complete = False
        while not complete:
            message = self._receive(PacketType.PRELOGIN)
            complete, answer = channel.handshake(message.data)
            if answer:
                self._writer.write(answer)
                self._writer.end_message(PacketType.PRELOGIN)
        self._use(channel)

    def _use(self, channel: TlsChannel) -> None:
        self._channel = channel
        self._writer = PacketWriter(channel, self._process_id)
        self._largest_packet = MAX_TLS_PACKET_BYTES

    def _receive(self, expected: PacketType) -> ClientMessage:
        message = receive_message(self._channel, MAX_LOGIN_MESSAGE_BYTES)
        if message.type != expected:
            raise ProtocolError(f"{message.type.name} where {expected.name} was due")
        return message

    def _log_in(self, login: Login) -> Session | None:
        try:
            check_supported(login)
            session = self._environment.backend.login(
                login.user, login.password, login.database, login.application
            )
        except SqlError as problem:
            self._refuse(login, problem)
            return None
        except ConnectionError:
            raise
        except Exception as problem:  # noqa: BLE001 - logged
            _log.exception("a login failed inside the sandbox")
            self._refuse(login, SqlError(50000, f"The sandbox failed: {type(problem).__name__}"))
            return None
        try:
            packet_bytes = negotiated_packet_bytes(login, self._largest_packet)
            self._writer.write(login_answer(login, session.database, packet_bytes))
            self._writer.end_message()
        except BaseException:
            session.close()
            raise
        self._writer.packet_bytes = packet_bytes
        return session

    def _refuse(self, login: Login, problem: SqlError) -> None:
        self._writer.write(login_refusal(problem, login))
        self._writer.end_message()

    def _serve(self, session: Session) -> None:
        try:
            Conversation(
                self._socket, self._channel, self._writer, session, self._environment
            ).run()
        finally:
            try:
                session.close()
            except Exception:  # noqa: BLE001 - logged
                _log.exception("closing a session failed")


class Conversation:
    """Requests and responses after the login."""

    def __init__(
        self,
        sock: socket.socket,
        channel: Channel,
        writer: PacketWriter,
        session: Session,
        environment: Environment,
    ) -> None:
        self._socket = sock
        self._channel = channel
        self._writer = writer
        self._session = session
        self._environment = environment
        self._runner = StatementRunner(session)
        self._transactions = TransactionManager(session)
        self._database = session.database

    def run(self) -> None:
        """Answer requests until the client closes the connection."""
        while True:
            message = receive_message(self._channel, MAX_MESSAGE_BYTES)
            if message.type == PacketType.ATTENTION:
                self._end_with(tokens.done(DoneToken.DONE, DoneStatus.ATTENTION))
                continue
            if message.ignored:
                # The client took its request back while sending it.
                self._end_with(tokens.done(DoneToken.DONE, DoneStatus.ERROR))
                continue
            try:
                self._answer(message)
            except Attention:
                self._acknowledge_attention()

    def _answer(self, message: ClientMessage) -> None:
        request = RunningRequest(self._socket, self._session)
        with self._environment.watcher.watching(request):
            try:
                if message.first_status & _RESET:
                    kept = PacketStatus.RESET_CONNECTION_KEEP_TRANSACTION
                    self._reset(keep_transaction=bool(message.first_status & kept))
                self._run(message, request)
            except SqlError as problem:
                self._response(request).write_error(problem)
            except ProtocolError:
                # Its packets were in order, so that it can be told before the connection ends.
                self._response(request).write_error(SqlError(4002, _INCORRECT_STREAM))
                self._writer.end_message()
                raise
        self._writer.end_message()

    def _run(self, message: ClientMessage, request: RunningRequest) -> None:
        if message.type == PacketType.SQL_BATCH:
            text = parse_batch(message.data)
            self._response(request).write_batch(lambda: self._session.execute(text))
        elif message.type == PacketType.RPC:
            self._answer_calls(message.data, request)
        elif message.type == PacketType.TRANSACTION_MANAGER:
            call = parse_transaction_call(message.data)
            self._writer.write(self._transactions.run(call))
        elif message.type == PacketType.BULK_LOAD:
            raise SqlError(40515, "Bulk load is not supported by the sandbox.")
        else:
            raise ProtocolError(f"{message.type.name} after the login")

    def _answer_calls(self, data: bytes, request: RunningRequest) -> None:
        try:
            for call in parse_calls(data):
                self._response(request).write_procedure(
                    lambda call=call: self._runner.run(call),  # type: ignore[misc]
                    call.parameters,
                    last=call.last,
                )
        except SqlError as problem:
            self._response(request).write_error(problem, DoneToken.DONE_PROCEDURE)

    def _reset(self, *, keep_transaction: bool) -> None:
        self._session.reset(keep_transaction=keep_transaction)
        self._runner.forget()
        for ended in self._session.transaction_changes():
            self._writer.write(tokens.transaction_change(ended))
        self._writer.write(tokens.environment_change(Change.RESET, b"\x00", b"\x00"))
        if self._session.database != self._database:
            change = tokens.database_change(self._session.database, self._database)
            self._writer.write(change)
            self._database = self._session.database

    def _response(self, request: RunningRequest) -> ResponseWriter:
        def interrupted() -> bool:
            if not request.cancelled and self._channel.has_input():
                request.cancel()
            return request.cancelled

        def rows_sent(rows: int, columns: tuple[ResultColumn, ...]) -> None:
            self._environment.backend.rows_sent(self._session, rows, columns)

        changed = self._session.transaction_changes
        hooks = ResponseHooks(interrupted, rows_sent, self._change_database, changed)
        return ResponseWriter(self._writer, hooks)

    def _change_database(self, database: str) -> str:
        before, self._database = self._database, database
        return before

    def _acknowledge_attention(self) -> None:
        message = receive_message(self._channel, MAX_MESSAGE_BYTES)
        if message.type != PacketType.ATTENTION:
            raise ProtocolError(f"{message.type.name} before the answer to a request ended")
        # What is held stays: clients hang where part of a token never arrives. Two messages,
        # because tedious waits for a second one; every client has to understand them, for an
        # attention may also cross a complete answer. The first says that the answer is not whole.
        self._end_with(tokens.done(DoneToken.DONE, DoneStatus.ERROR))
        self._end_with(tokens.done(DoneToken.DONE, DoneStatus.ATTENTION))

    def _end_with(self, data: bytes) -> None:
        self._writer.write(data)
        self._writer.end_message()
