"""A lake's credentials, given once as delta-rs names them, as Hadoop's settings."""

import re

import pytest

from cdc_assets.engines.spark.storage import REDACTED, connector, hadoop_conf, location

ACCOUNT = "shop.dfs.core.windows.net"
ABFSS = f"abfss://lake@{ACCOUNT}/sales"


def test_s3_with_keys_and_an_endpoint() -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "id",
        "aws_secret_access_key": "secret",
        "session_token": "token",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "eu-west-1",
        "timeout": "30s",
    }
    assert hadoop_conf("s3://lake/x", options) == {
        "fs.s3a.access.key": "id",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.session.token": "token",
        "fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        ),
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
    }


@pytest.mark.parametrize(
    ("options", "conf"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "k"}, {f"fs.azure.account.key.{ACCOUNT}": "k"}),
        ({"access_key": "k"}, {f"fs.azure.account.key.{ACCOUNT}": "k"}),
        (
            {"azure_storage_sas_token": "s"},
            {
                f"fs.azure.account.auth.type.{ACCOUNT}": "SAS",
                f"fs.azure.sas.fixed.token.{ACCOUNT}": "s",
            },
        ),
        ({}, {}),
    ],
)
def test_azure(options: dict[str, str], conf: dict[str, str]) -> None:
    assert hadoop_conf(ABFSS, options) == conf


def test_azure_with_a_service_principal() -> None:
    options = {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "t"}
    conf = hadoop_conf(ABFSS, options)
    assert conf[f"fs.azure.account.auth.type.{ACCOUNT}"] == "OAuth"
    assert conf[f"fs.azure.account.oauth2.client.endpoint.{ACCOUNT}"].endswith("/t/oauth2/token")


def test_google() -> None:
    conf = hadoop_conf("gs://lake", {"GOOGLE_SERVICE_ACCOUNT": "/keys/a.json"})
    assert conf["fs.gs.auth.service.account.json.keyfile"] == "/keys/a.json"


def test_a_folder_needs_nothing() -> None:
    assert hadoop_conf("/data/lake", {"AWS_ACCESS_KEY_ID": "id"}) == {}
    assert connector("/data/lake") is None


def test_spark_knows_s3_as_s3a() -> None:
    assert location("s3://lake/x") == location("s3a://lake/x") == "s3a://lake/x"
    assert (connector("s3://lake") or "").startswith("org.apache.hadoop:hadoop-aws:")


@pytest.mark.parametrize(
    "conf",
    [
        hadoop_conf("s3://l", {"access_key_id": "x", "secret_access_key": "x", "token": "x"}),
        hadoop_conf(ABFSS, {"account_key": "x"}),
        hadoop_conf(ABFSS, {"sas_token": "x"}),
        hadoop_conf(ABFSS, {"client_id": "c", "client_secret": "x", "tenant_id": "t"}),
    ],
)
def test_spark_hides_every_secret(conf: dict[str, str]) -> None:
    shown = [key for key, value in conf.items() if value == "x" and not re.search(REDACTED, key)]
    assert shown == []
