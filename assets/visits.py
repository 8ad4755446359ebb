"""Visits, delivered to a database in batches: twenty of a customer at once, or what came within ten seconds."""

import headrace as hr

visits = hr.Topic(
    "visits", key="customer_id STRING", value="customer_id STRING, visitor_id STRING, action STRING"
)

visit_batches = (
    visits.group_by("customer_id")
    .batch(max_records=20, max_wait="10 seconds", collect=["visitor_id", "action"])
    .to(hr.PostgresSink("visit_batches"))
    .named("visit_batches", description="The visits of each customer, as they are sent to its database.")
)
