"""The lake's credentials as Spark takes them: given once, as delta-rs names them, and translated.

Hadoop reads them from the session that works on the lake. What a name means is in the documents of
object_store (its configuration keys) and of Hadoop's S3A and ABFS connectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cdc_assets.lake.tables import StorageOptions
from cdc_assets.settings.lakes import scheme_of

HADOOP_VERSION = "3.5.0"
"""What pyspark 4.2 brings; the connectors must be of the same."""

REDACTED = "(?i)secret|password|pwd|token|access[.]?key|account[.]?key|[.]sas[.]|connectionstring"
"""Settings that Spark hides wherever it shows settings: its default, and what Azure adds."""

_CONNECTORS = {"s3": "hadoop-aws", "s3a": "hadoop-aws"} | dict.fromkeys(
    ("abfs", "abfss"), "hadoop-azure"
)
_OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_SESSION_TOKEN = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"  # noqa: S105 - a class


def location(uri: str) -> str:
    """A table's place as Spark must be told: the JVM may have another working directory."""
    if not scheme_of(uri):
        return str(Path(uri).absolute())
    return "s3a" + uri[2:] if scheme_of(uri) == "s3" else uri


def connector(lake: str) -> str | None:
    """Maven coordinates of the connector that a lake there needs; None for one that Spark has.

    Google's is not Hadoop's, and has versions of its own: `spark.conf` names it.
    """
    artifact = _CONNECTORS.get(scheme_of(lake))
    return f"org.apache.hadoop:{artifact}:{HADOOP_VERSION}" if artifact else None


def hadoop_conf(lake: str, options: StorageOptions) -> dict[str, str]:
    """delta-rs's storage options as Hadoop's settings; those that Hadoop lacks are left out."""
    scheme = scheme_of(lake)
    if scheme in ("s3", "s3a"):
        return _s3(_named(options, "aws_"))
    if scheme in ("abfs", "abfss"):
        return _azure(_named(options, "azure_storage_", "azure_"), _account(lake))
    if scheme == "gs":
        return _google(_named(options, "google_"))
    return {}


def _named(options: StorageOptions, *prefixes: str) -> dict[str, str]:
    """The options in lower case and without their store's name, which may be left out."""
    found = {}
    for name, value in options.items():
        key = name.lower()
        prefix = next((p for p in prefixes if key.startswith(p)), "")
        found[key.removeprefix(prefix)] = value
    return found


def _first(options: Mapping[str, str], *names: str) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _there(conf: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in conf.items() if value is not None}


def _s3(options: Mapping[str, str]) -> dict[str, str]:
    endpoint = _first(options, "endpoint_url", "endpoint")
    token = _first(options, "session_token", "token")
    by_host = options.get("virtual_hosted_style_request", "").lower() == "true"
    return _there(
        {
            "fs.s3a.access.key": options.get("access_key_id"),
            "fs.s3a.secret.key": options.get("secret_access_key"),
            "fs.s3a.session.token": token,
            "fs.s3a.aws.credentials.provider": _SESSION_TOKEN if token else None,
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.endpoint.region": _first(options, "region", "default_region"),
            # Both of delta-rs's defaults: the bucket stands in the path, and https is a must.
            "fs.s3a.path.style.access": "false" if by_host or not endpoint else "true",
            "fs.s3a.connection.ssl.enabled": (
                "false" if endpoint and endpoint.startswith("http://") else None
            ),
        }
    )


def _account(lake: str) -> str:
    """The host of abfss://container@account.dfs.core.windows.net/…"""
    return lake.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _azure(options: Mapping[str, str], host: str) -> dict[str, str]:
    key = _first(options, "account_key", "access_key", "master_key")
    sas = _first(options, "sas_key", "sas_token")
    client = options.get("client_id")
    secret = options.get("client_secret")
    tenant = _first(options, "tenant_id", "authority_id")
    if client and secret and tenant:
        return {
            f"fs.azure.account.auth.type.{host}": "OAuth",
            f"fs.azure.account.oauth.provider.type.{host}": _OAUTH,
            f"fs.azure.account.oauth2.client.id.{host}": client,
            f"fs.azure.account.oauth2.client.secret.{host}": secret,
            f"fs.azure.account.oauth2.client.endpoint.{host}": (
                f"https://login.microsoftonline.com/{tenant}/oauth2/token"
            ),
        }
    if sas:
        return {
            f"fs.azure.account.auth.type.{host}": "SAS",
            f"fs.azure.sas.fixed.token.{host}": sas,
        }
    return _there({f"fs.azure.account.key.{host}": key})


def _google(options: Mapping[str, str]) -> dict[str, str]:
    file = _first(options, "service_account", "service_account_path", "application_credentials")
    if file is None:
        return {}
    return {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": file,
    }
