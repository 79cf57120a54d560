"""Where Spark is, told from its address; what of it may be shown."""

import pytest

from cdc_assets.settings.masters import connect_place, master
from cdc_assets.settings.model import SparkSettings


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("sc://spark.example", "spark.example:15002"),
        ("sc://spark.example:443/", "spark.example:443"),
        ("sc://spark.example:443/;use_ssl=true;token=a%2Fb", "spark.example:443"),
        ("sc://spark.example/;token=a/b", "spark.example:15002"),
        ("sc://[::1]:7", "[::1]:7"),
    ],
)
def test_of_an_address_host_and_port_are_shown(address: str, place: str) -> None:
    assert master(address) == address
    assert connect_place(address) == place


@pytest.mark.parametrize(
    "address",
    [
        "sc://",
        "sc://:15002",
        "sc://host:port",
        "sc://host:99999",
        "sc://host/token",
        "sc://host/;token",
        "sc://host/;token=a=b",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(address: str) -> None:
    with pytest.raises(ValueError, match="sc://host:port") as caught:
        master(address)
    assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "is_cluster"),
    [
        ("local[*]", False),
        ("local", False),
        ("spark://h:7077", True),
        ("yarn", True),
        ("k8s://https://h:6443", True),
        ("sc://h:15002", True),
    ],
)
def test_a_cluster_is_what_is_not_this_machine(address: str, is_cluster: bool) -> None:
    assert SparkSettings(master=address).is_cluster is is_cluster
