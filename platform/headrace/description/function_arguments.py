"""How many arguments each function takes, so that a wrong call is refused while a description is built.

Source: Spark 4.1.3, asked for each number of arguments; tests/runtime/test_refused_expressions.py asks it again. Functions
that a description refuses anyway, and those that take any number, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType

from headrace.description.pointing import marked
from headrace.errors import DescriptionError

MANY = 1 << 16
_ARGUMENTS = {
    (0, 0): """
        e pi""",
    (0, 2): """
        make_ym_interval unix_timestamp""",
    (0, 4): """
        make_dt_interval""",
    (0, 5): """
        mask""",
    (0, 7): """
        make_interval""",
    (1, 1): """
        abs acos acosh array_compact array_distinct array_max array_min array_size ascii asin asinh atan atanh
        base64 bigint bin binary bit_count bit_length bitmap_bit_position bitmap_bucket_number bitmap_count
        boolean cardinality cbrt char_length character_length chr collation cos cosh cot crc32 csc date
        date_from_unix_date day dayname dayofmonth dayofweek dayofyear degrees double exp expm1 factorial
        flatten float hex hll_sketch_estimate hour initcap int is_valid_utf8 is_variant_null isnan isnotnull
        isnull json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_to_string_bigint kll_sketch_to_string_double
        kll_sketch_to_string_float last_day lcase len length ln log10 log1p log2 lower luhn_check
        make_valid_utf8 map_entries map_from_entries map_keys map_values md5 minute month monthname negative
        nullifzero octet_length positive quarter quote radians reverse rint schema_of_variant sec second sha
        sha1 sign signum sin sinh size smallint soundex space sqrt st_asbinary st_geogfromwkb st_geomfromwkb
        st_srid string tan tanh theta_sketch_estimate timestamp timestamp_micros timestamp_millis
        timestamp_seconds tinyint to_variant_object try_parse_json try_url_decode try_validate_utf8 typeof ucase
        unhex unix_date unix_micros unix_millis unix_seconds upper url_encode weekday weekofyear year zeroifnull""",
    (1, 2): """
        approx_top_k_estimate array_sort bround btrim ceil ceiling floor from_unixtime log ltrim round rtrim
        schema_of_avro schema_of_csv schema_of_json schema_of_xml sort_array to_avro to_csv to_date to_json
        to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_xml trim try_to_binary try_to_date
        try_to_time try_to_timestamp""",
    (1, 3): """
        sentences str_to_map""",
    (1, 7): """
        make_timestamp try_make_interval try_make_timestamp""",
    (1, MANY): """
        coalesce concat_ws format_string hash printf xxhash64""",
    (2, 2): """
        add_months array_append array_contains array_except array_intersect array_position array_prepend
        array_remove array_repeat array_union arrays_overlap atan2 bit_get collate contains date_add date_diff
        date_format date_part date_sub date_trunc dateadd datediff datepart encode endswith equal_null exists
        extract filter find_in_set forall format_number from_utc_timestamp get get_json_object getbit hypot
        ifnull instr kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
        kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float left map_contains_key map_filter map_from_arrays mod
        nanvl next_day nullif nvl pmod pow power regexp_count regexp_like regexp_substr repeat right sha2
        shiftleft shiftright shiftrightunsigned st_setsrid startswith theta_difference theta_intersection
        time_trunc to_char to_utc_timestamp to_varchar transform transform_keys transform_values trunc try_add
        try_divide try_element_at try_mod try_multiply try_subtract try_to_number xpath xpath_boolean
        xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string""",
    (2, 3): """
        array_join convert_timezone from_avro from_csv from_json from_xml hll_union levenshtein locate lpad
        months_between parse_url position regexp_extract regexp_extract_all regexp_instr replace rpad sequence
        split substr substring theta_union try_parse_url try_variant_get""",
    (2, 4): """
        from_protobuf to_protobuf""",
    (2, 5): """
        try_aes_decrypt""",
    (2, 6): """
        make_timestamp_ntz try_make_timestamp_ntz""",
    (2, 7): """
        make_timestamp_ltz try_make_timestamp_ltz""",
    (2, MANY): """
        decode elt greatest least""",
    (3, 3): """
        array_insert conv if make_date make_time map_zip_with nvl2 slice split_part substring_index time_diff
        translate zip_with""",
    (3, 4): """
        aggregate overlay reduce regexp_replace""",
    (4, 4): """
        width_bucket""",
}  # fmt: skip
ARGUMENTS = {name: bounds for bounds, names in _ARGUMENTS.items() for name in names.split()}
# Calls with words instead of commas, such as `substring(a FROM 2)`, and calls with a unit of time as their first argument.
_WORDS = {"FROM", "FOR", "IN", "PLACING", "AS", "BOTH", "LEADING", "TRAILING"}
_IN_PAIRS = {"map", "named_struct"}
_WITH_UNIT = {"date_add", "date_diff", "dateadd", "datediff"}
_OPENS = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSES = {TokenType.R_PAREN, TokenType.R_BRACKET}


def refuse_numbers_of_arguments(tokens: Sequence[Token], sql: str, what: str) -> None:
    """Raise DescriptionError for a call with fewer or more arguments than its function takes.

    In: tokens  of the expression, as it was written
    """
    for place, (token, following) in enumerate(pairwise(tokens)):
        name = token.text.lower()
        is_call = following.token_type == TokenType.L_PAREN and token.token_type != TokenType.STRING
        if not is_call or name not in ARGUMENTS.keys() | _IN_PAIRS:
            continue
        if place and tokens[place - 1].token_type in (TokenType.DOT, TokenType.ALIAS, TokenType.DCOLON):
            continue  # a field, or a type
        number = (
            None if _is_query(tokens[min(place + 2, len(tokens) - 1)]) else _arguments(tokens[place + 2 :])
        )
        if number is not None and (takes := _refused(name, number)):
            raise DescriptionError(
                f"{what}: {token.text} in {sql!r} has {_counted(number)} at position {token.start + 1}.",
                detail=marked(sql, token.start, len(token.text)),
                hint=f"{name} takes {takes}.",
            )


def _is_query(token: Token) -> bool:
    """True of the first word of a subquery, which is refused as such."""
    return token.token_type in (TokenType.SELECT, TokenType.WITH)


def _refused(name: str, number: int) -> str:
    """The arguments that a function takes, in words, if it does not take so many; otherwise empty."""
    if name in _IN_PAIRS:
        return "pairs of arguments" if number % 2 else ""
    fewest, most = ARGUMENTS[name]
    if fewest <= number <= most + (name in _WITH_UNIT):
        return ""
    if most == MANY:
        return f"{fewest} or more arguments"
    return _counted(fewest) if fewest == most else f"{fewest} to {most} arguments"


def _arguments(tokens: Sequence[Token]) -> int | None:
    """The number of arguments of a call; None: words part them, or it does not end. In: tokens  after its parenthesis."""
    depth = commas = 0
    for number, token in enumerate(tokens):
        if token.token_type in _CLOSES:
            if not depth:
                return commas + 1 if number else 0
            depth -= 1
        elif token.token_type in _OPENS:
            depth += 1
        elif not depth and token.token_type == TokenType.COMMA:
            commas += 1
        elif (
            not depth
            and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
            and token.text.upper() in _WORDS
        ):
            return None
        elif not depth and token.token_type == TokenType.DCOLON:
            return None  # a type may hold commas
    return None


def _counted(number: int) -> str:
    return f"{number or 'no'} argument{'s' * (number != 1)}"
