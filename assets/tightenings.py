"""Tightenings of screws, totalled; the service that sends them crashes and sends some again."""

import headrace as hr

tightenings = hr.Topic(
    "tightenings",
    key="screw STRING",
    value="customer STRING, screw STRING, count BIGINT",
    replay_guard=hr.ReplayGuard(header="source-chain", mode="monotone"),
)

screw_totals = (
    tightenings.group_by("customer", "screw")
    .aggregate(n=hr.sum("count"), reports=hr.count())
    .throttle("10 seconds")
    .named("screw_totals", description="How often each screw was tightened, each report counted once.")
)
