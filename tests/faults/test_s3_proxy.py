"""The proxy in front of a real S3 server: signed requests pass, and in bad weather a client that tries again loses nothing."""

from __future__ import annotations

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import S3Store

from headrace.local.object_store import ObjectStore
from tests.faults.s3_proxy import S3Proxy

pytestmark = pytest.mark.s3


def test_requests_pass_as_they_were_signed_and_each_weather_strikes_some(
    object_store: ObjectStore, s3_root: str
) -> None:
    bucket, prefix = s3_root.rpartition("://")[2].split("/", 1)
    body = bytes(range(256)) * 16
    with S3Proxy(object_store.endpoint, seed=3) as proxy:
        known = object_store.environment

        def store_of(tries: int) -> S3Store:
            return S3Store(
                bucket,
                prefix=prefix,
                endpoint=proxy.endpoint,
                access_key_id=known["AWS_ACCESS_KEY_ID"],
                secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
                region=known["AWS_REGION"],
                client_options={"allow_http": True},
                retry_config={"max_retries": tries - 1},
            )

        store = store_of(10)
        obstore.put(store, "a b/c=1+é.bin", body)
        assert obstore.head(store, "a b/c=1+é.bin")["size"] == len(body)
        assert proxy.weather.disturbed == 0
        for weather in ({"unavailable": 0.4}, {"slow_s": 0.01}, {"lost": 0.4}):
            before = proxy.weather.disturbed
            vars(proxy.weather).update(weather)
            for number in range(8):
                obstore.put(store, f"{next(iter(weather))}/{number}", body + bytes([number]))
            proxy.weather.clear()
            assert proxy.weather.disturbed > before, weather
        found = [each["path"] for some in obstore.list(store) for each in some]
        assert sorted(found) == sorted(
            ["a b/c=1+é.bin", *(f"{of}/{n}" for of in ("unavailable", "slow_s", "lost") for n in range(8))]
        )
        assert all(obstore.get(store, path).bytes().to_bytes()[: len(body)] == body for path in found)

        proxy.weather.lost = 1.0
        with pytest.raises(GenericError):
            obstore.put(store_of(1), "lost/once", body)
        proxy.weather.clear()
        assert obstore.get(store, "lost/once").bytes() == body, "it went through"
