"""Dagster: descriptions become assets, checks, jobs and sensors. The one place that knows Dagster.

A *stream run* is one long Dagster run that hosts a Spark session and one loop for each asset
selected. Its end says what happens next: CANCELED is a person's choice and stays, SUCCESS is a rotation and
FAILURE a fault; after both of these the sensor starts the next run.
"""

from headrace.extras import named_extra

with named_extra():
    from headrace.orchestration.alerting.alert_channels import AlertChannel, EmailAlerts, SlackAlerts
    from headrace.orchestration.component import HeadraceComponent
    from headrace.orchestration.definitions import build_definitions
    from headrace.orchestration.events.finality import once_final

__all__ = [
    "AlertChannel",
    "EmailAlerts",
    "HeadraceComponent",
    "SlackAlerts",
    "build_definitions",
    "once_final",
]
