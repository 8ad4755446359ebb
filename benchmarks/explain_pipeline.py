"""The pipeline that `benchmarks.explain` asks: totals of all time, and windows with late records."""

import headrace as hr

HOURS = 60 * 60 * 1_000

payments = hr.Topic("payments", key="shop STRING", value="amount BIGINT", idle_timeout=None)
by_shop = payments.group_by("shop")
totals = by_shop.aggregate(n=hr.count(), total=hr.sum("amount")).named("totals")
windows = (
    by_shop.window(hr.tumbling("6 hours"), grace="10 minutes")
    .aggregate(n=hr.count(), total=hr.sum("amount"))
    .suppress(hr.until_window_closes())
    .named("windows")
)
