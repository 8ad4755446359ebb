{{ config(materialized="incremental", unique_key="day") }}
SELECT window_start::DATE AS day, count(*) AS windows, sum(n) AS records
FROM {{ source("lake", "counts") }}
WHERE window_start::DATE = '{{ var("day") }}'
GROUP BY ALL
