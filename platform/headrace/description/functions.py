"""SQL functions that an expression over one record cannot use, and why.

Source: Spark 4.1's function registry, by group (agg_funcs, window_funcs, generator_funcs), and the
functions that it marks as non-deterministic or evaluates once per run. TRY_FORMS was found by calling each function
with odd inputs while ANSI mode is off; tests/runtime/test_raising_functions.py repeats it.
"""

from __future__ import annotations


def names_in(text: str) -> frozenset[str]:
    """The names in a text, between blanks."""
    return frozenset(text.split())


AGGREGATES = names_in("""
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean median min
    min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some std
    stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg
    try_avg try_sum var_pop var_samp variance
    """)

WINDOW_FUNCTIONS = names_in("cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number")

GENERATORS = names_in(
    "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack"
)

TIME_WINDOWS = names_in("session_window window window_time")

RUN_DEPENDENT = names_in("""
    aes_encrypt curdate current_catalog current_database current_date current_schema current_time
    current_timestamp current_timezone current_user input_file_block_length input_file_block_start
    input_file_name java_method localtimestamp monotonically_increasing_id now rand randn random randstr
    reflect session_user shuffle spark_partition_id try_reflect uniform user uuid version
    """)

RUN_DEPENDENT_WITHOUT_ARGUMENTS = names_in("to_unix_timestamp unix_timestamp")

RUN_DEPENDENT_WORDS = names_in("""
    current_catalog current_database current_date current_schema current_time current_timestamp current_user
    localtimestamp session_user
    """)
"""Those that Spark also reads without parentheses. `user` is not among them: it is a common column name."""

TRY_FORMS = {
    "aes_decrypt": "try_aes_decrypt",
    "element_at": "try_element_at, or get(array, index), which counts from 0 and never raises",
    "parse_json": "try_parse_json",
    "to_binary": "try_to_binary",
    "to_number": "try_to_number",
    "to_time": "try_to_time",
    "unbase64": "try_to_binary(…, 'base64')",
    "url_decode": "try_url_decode",
    "validate_utf8": "try_validate_utf8",
    "variant_get": "try_variant_get",
}
"""Functions that raise for some inputs, and what to call instead."""

RAISES_ON_PURPOSE = names_in("assert_true raise_error")

_AGGREGATE = ".group_by(…).window(…).aggregate(…)"
_REFUSALS = (
    (AGGREGATES, "is an aggregate", f"An expression sees one record; use {_AGGREGATE}."),
    (WINDOW_FUNCTIONS, "looks at other records", f"An expression sees one record; use {_AGGREGATE}."),
    (
        GENERATORS,
        "makes several rows of one record",
        "Write .flat_map(\"split(text, ' ') AS word\"), or use transform, filter and get on the array.",
    ),
    (TIME_WINDOWS, "assigns windows", "Use .window(hr.tumbling('2 minutes'), grace='2 minutes')."),
    (
        RUN_DEPENDENT,
        "depends on the run",
        "Results are a function of the log alone; use a column of the record.",
    ),
    (
        RAISES_ON_PURPOSE,
        "raises",
        "Leave records out with .where(…); the ledger counts them.",
    ),
)


def why_refused(function: str, *, has_arguments: bool) -> tuple[str, str] | None:
    """The problem with a function and its fix, or None when a record's expression may call it."""
    name = function.lower()
    if name in RUN_DEPENDENT_WITHOUT_ARGUMENTS and not has_arguments:
        name = "now"
    if name in TRY_FORMS:
        return "raises for some inputs", f"Use {TRY_FORMS[name]}."
    return next(((problem, fix) for names, problem, fix in _REFUSALS if name in names), None)
