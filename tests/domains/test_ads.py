"""Advertising: which impressions were clicked within an hour, and the click-through rate of each campaign."""

import headrace as hr

impressions = hr.Topic(
    "impressions",
    key="impression_id STRING",
    value="ad STRUCT<campaign: STRING, creative: STRING>, price DOUBLE, shown_at TIMESTAMP NOT NULL",
    timestamp="shown_at",
)
clicks = hr.Topic(
    "clicks",
    key="click_id STRING",
    value="impression_id STRING, clicked_at TIMESTAMP NOT NULL",
    timestamp="clicked_at",
)

attributed = (
    impressions.join(clicks, on="impression_id", before=0, after="1 hour", grace="5 minutes", how="left")
    .select(
        "impression_id",
        "ad.campaign AS campaign",
        "price",
        "shown_at",
        "click_id",
        "timestampdiff(SECOND, shown_at, clicked_at) AS seconds_to_click",
    )
    .named("attributed", description="Each impression with its click, or without one an hour later.")
)
click_through = (
    attributed.group_by("campaign")
    .window(hr.tumbling("10 minutes"), grace="1 minute")
    .aggregate(
        impressions=hr.count_distinct("impression_id"),
        clicked=hr.count_distinct("impression_id", where="click_id IS NOT NULL"),
        clicks=hr.count("click_id"),
        wait=hr.quantiles("seconds_to_click", at=[0.5, 0.9]),
        spent=hr.sum("price", scale=4),
    )
    .suppress(hr.until_window_closes())
    .with_column("rate", "clicked / impressions")
    .to(hr.KafkaSink("click_through"))
    .named("click_through", description="Click-through rate of each campaign in ten minutes.")
)
