CREATE TABLE tightenings (
  `key` STRING, `count` BIGINT, headers MAP<STRING, BYTES> METADATA, taken_at AS PROCTIME()
) WITH ('connector' = 'kafka', 'topic' = '${prefix}tightenings', 'key.format' = 'raw', 'key.fields' = 'key',
  'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', ${source});

CREATE TABLE totals (`key` STRING, `sum` BIGINT, PRIMARY KEY (`key`) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${out}', 'key.format' = 'raw', 'value.format' = 'json', ${sink});

INSERT INTO totals
SELECT `key`, SUM(`count`)
FROM (
  SELECT `key`, `count`, ROW_NUMBER() OVER (PARTITION BY `key`, root ORDER BY taken_at) AS row_number_
  FROM (SELECT *, SPLIT_INDEX(CAST(headers['source-chain'] AS STRING), ']', 0) AS root FROM tightenings)
)
WHERE row_number_ = 1
GROUP BY `key`
