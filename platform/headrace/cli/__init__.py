"""The command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.cli import commands
from headrace.cli.care.backups import back_lake_up, restore_lake
from headrace.cli.care.mirroring import mirror_tables
from headrace.cli.care.pausing import pause_node, pending_erasures, resume_node
from headrace.cli.care.verifying import verify_node
from headrace.cli.changing import apply_pipeline, plan_pipeline, roll_pipeline_back
from headrace.cli.commands import app, main
from headrace.cli.configuring import config
from headrace.cli.console.options import with_options_of_groups
from headrace.cli.console.telling import options_of_all, take_json
from headrace.cli.dead_letters import redrive, show_dead_letters, show_failing, show_records, show_refused
from headrace.cli.describing import describe_nodes, preview_node
from headrace.cli.developing import demo, demo_once, develop
from headrace.cli.explaining import ask_what_if, audit_against, explain_record, explain_row
from headrace.cli.new_project import new_project
from headrace.cli.querying import answer_query, get_row, tail_node
from headrace.cli.running import run_streams
from headrace.cli.setting_up import fetch
from headrace.cli.status import show_status

# In the groups and in the order in which `headrace --help` shows them.
GROUPS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "Run": {"run": run_streams, "dev": develop, "demo": demo, "demo-once": demo_once},
    "Look": {
        "describe": describe_nodes,
        "preview": preview_node,
        "status": show_status,
        "tail": tail_node,
        "sql": answer_query,
        "get": get_row,
        "why": explain_row,
        "why-not": explain_record,
        "what-if": ask_what_if,
        "audit": audit_against,
        "verify": verify_node,
        "limits": commands.limits,
        "dead-letters": show_dead_letters,
        "records": show_records,
        "refused": show_refused,
        "failing": show_failing,
        "erasures": pending_erasures,
    },
    "Change": {
        "plan": plan_pipeline,
        "apply": apply_pipeline,
        "rollback": roll_pipeline_back,
        "pause": pause_node,
        "resume": resume_node,
        "set-limits": commands.set_limits,
        "set-trigger": commands.set_trigger,
        "rebuild": commands.rebuild,
        "redeliver": commands.redeliver,
        "maintain": commands.maintain,
        "mirror": mirror_tables,
        "retain": commands.retain,
        "erase": commands.erase,
    },
    "Repair": {
        "repair": commands.repair,
        "redrive": redrive,
        "accept-gap": commands.accept_gap,
        "reset-guard": commands.reset_guard,
        "backup": back_lake_up,
        "restore": restore_lake,
    },
    "Develop": {"new": new_project, "fetch-jars": fetch},
}
app.callback()(options_of_all)
for group, members in GROUPS.items():
    for name, command in members.items():
        app.command(name, rich_help_panel=group)(with_options_of_groups(command))
app.add_typer(config, name="config")
take_json(app)

__all__ = ["GROUPS", "app", "main"]
