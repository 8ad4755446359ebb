"""The command line."""

from headrace.cli.care.backups import back_lake_up, restore_lake
from headrace.cli.care.mirroring import mirror_tables
from headrace.cli.care.pausing import pause_node, pending_erasures, resume_node
from headrace.cli.care.verifying import verify_node
from headrace.cli.changing import apply_pipeline, plan_pipeline, roll_pipeline_back
from headrace.cli.commands import app, main
from headrace.cli.configuring import config
from headrace.cli.console.groups import in_groups
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

app.callback()(options_of_all)
app.command("demo")(demo)
app.command("demo-once")(demo_once)
app.command("dev")(develop)
app.command("run")(run_streams)
app.command("describe")(describe_nodes)
app.command("dead-letters")(show_dead_letters)
app.command("records")(show_records)
app.command("refused")(show_refused)
app.command("redrive")(redrive)
app.command("failing")(show_failing)
app.command("preview")(preview_node)
app.command("pause")(pause_node)
app.command("resume")(resume_node)
app.command("erasures")(pending_erasures)
app.command("verify")(verify_node)
app.command("plan")(plan_pipeline)
app.command("apply")(apply_pipeline)
app.command("rollback")(roll_pipeline_back)
app.add_typer(config, name="config")
app.command("backup")(back_lake_up)
app.command("restore")(restore_lake)
app.command("mirror")(mirror_tables)
app.command("sql")(answer_query)
app.command("get")(get_row)
app.command("why")(explain_row)
app.command("why-not")(explain_record)
app.command("what-if")(ask_what_if)
app.command("audit")(audit_against)
app.command("status")(show_status)
app.command("tail")(tail_node)
app.command("new")(new_project)
app.command("fetch-jars")(fetch)
in_groups(app)
take_json(app)

__all__ = ["app", "main"]
