"""Tightenings of screws, totalled; the service that sends them, in Protobuf, crashes and sends some again.

The service registers the schema of its messages. The chain of their sources stands in a header and in their envelope.
"""

from dagster import EnvVar

import headrace as hr
from headrace.local.tightening_message import REGISTRY, Tightening

tightenings = hr.Topic(
    "tightenings",
    key="screw STRING",
    format=hr.Protobuf(Tightening, registry=EnvVar(REGISTRY)),
    replay_guard=hr.ReplayGuard(header=None, path="envelope.source_topic_chain", mode="monotone"),
)

screw_totals = (
    tightenings.group_by("customer", "screw")
    .aggregate(n=hr.sum("count"), reports=hr.count())
    .throttle("10 seconds")
    .named("screw_totals", description="How often each screw was tightened, each report counted once.")
)
