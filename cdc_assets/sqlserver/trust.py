"""Trusting a certificate authority of one's own, beside the system's.

Microsoft's driver has no setting for it: its OpenSSL reads `SSL_CERT_FILE` at every handshake. So
a bundle of what was trusted before and the authority is made for this process, and named there;
whoever else speaks TLS in the process goes on trusting what it did.
"""

from __future__ import annotations

import atexit
import os
import shutil
import ssl
import tempfile
import threading
from pathlib import Path

from cdc_assets.errors import SettingsError

VARIABLE = "SSL_CERT_FILE"

_lock = threading.Lock()


def trust(ca_file: str, *, where: str) -> None:
    """Trust an authority in this process and its children; raises `SettingsError` for no file."""
    try:
        authority = Path(ca_file).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        raise SettingsError(
            f"cannot read the certificate authority {ca_file}: {error.strerror}",
            where=where,
            hint="Start the sandbox with `cdc-assets sandbox`, or set `ca_file` in tables.yaml.",
        ) from None
    with _lock:
        before = _trusted_now()
        if authority not in before:
            os.environ[VARIABLE] = _bundle(f"{before}\n{authority}\n")


def _trusted_now() -> str:
    named = os.environ.get(VARIABLE)
    file = Path(named or ssl.get_default_verify_paths().openssl_cafile)
    if not file.exists():
        return ""
    return file.read_text(encoding="utf-8", errors="replace")


def _bundle(text: str) -> str:
    folder = tempfile.mkdtemp(prefix="cdc-assets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / "trusted.pem"
    file.write_text(text, encoding="utf-8")
    return str(file)
