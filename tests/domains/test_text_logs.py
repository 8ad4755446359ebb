"""Logs as plain text: error rates of each service and minute, with the team that is to act."""

import headrace as hr

lines = hr.Topic("app_logs", value="line STRING", format=hr.Text())
teams = hr.Topic("service_teams", key="service STRING", value="team STRUCT<name: STRING, channel: STRING>")

# 2026-11-28T15:00:01Z ERROR checkout card refused
parsed = (
    lines.with_column("parts", "split(line, ' ', 4)")
    .quarantine("size(parts) = 4 AND parts[1] IN ('DEBUG', 'INFO', 'WARN', 'ERROR')")
    .select("parts[1] AS level", "nullif(parts[2], '-') AS service", "parts[3] AS message")
)
error_rates = (
    parsed.group_by("service")
    .window(hr.tumbling("1 minute"), grace="10 seconds")
    .aggregate(
        lines=hr.count(),
        errors=hr.count(where="level = 'ERROR'"),
        first_error=hr.min_by("message", by="IF(level = 'ERROR', record_offset(), NULL)"),
    )
    .suppress(hr.until_window_closes())
    .named("error_rates", description="Lines and errors of each service and minute.")
)
noisy_services = (
    error_rates.as_stream()
    .with_column("rate", "errors / lines")
    .where("errors >= 3 AND rate > 0.1")
    .lookup(teams.table(), on="service")
    .select("service", "window_start", "rate", "first_error", "team.channel AS channel")
    .to(hr.KafkaSink("log_alerts"))
    .named("noisy_services", description="Services with more than a tenth of errors in a minute.")
)
