"""An S3 server on loopback, and environments that name it."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.proxy import Proxy
from tests.small_dataset import make_stores

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",  # botocore's own retries would hide ours
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@pytest.fixture(scope="session")
def proxy() -> Iterator[Proxy]:
    """The proxy in front of the server, which all tests share."""
    from moto.server import ThreadedMotoServer

    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    proxy = Proxy(*server.get_host_and_port())
    yield proxy
    proxy.stop()
    server.stop()


@pytest.fixture
def s3(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """The proxy, all well with it, named by the environment; the cache and temporary files are the test's own."""
    import s3fs

    proxy.reset()
    s3fs.S3FileSystem.clear_instance_cache()  # they keep the credentials they were made with
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("SYNTHSCAPE_CACHE", str(tmp_path / "cache"))
    yield proxy
    proxy.reset()


@pytest.fixture
def bucket(s3: Proxy) -> str:
    """URL of a new bucket."""
    import s3fs

    name = f"b{secrets.token_hex(6)}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not pass within half a second does not pass."""
    monkeypatch.setattr("synthscape.remote._FIRST_WAIT_S", 0.05)
    monkeypatch.setattr("synthscape.remote._PATIENCE_S", 0.5)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bank and backgrounds, on this machine."""
    return make_stores(tmp_path_factory.mktemp("stores"))
