CREATE TABLE transfers (
  source STRING, target STRING, amount BIGINT, headers MAP<STRING, BYTES> METADATA, taken_at AS PROCTIME()
) WITH ('connector' = 'kafka', 'topic' = '${prefix}transfers', 'format' = 'json', ${source});

CREATE TABLE balances (`key` STRING, balance BIGINT, PRIMARY KEY (`key`) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${out}', 'key.format' = 'raw', 'value.format' = 'json', ${sink});

INSERT INTO balances
SELECT account, SUM(change)
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY root ORDER BY taken_at) AS row_number_
  FROM (SELECT *, CAST(headers['source-chain'] AS STRING) AS root FROM transfers)
)
CROSS JOIN UNNEST(ARRAY[ROW(source, -amount), ROW(target, amount)]) AS entry (account, change)
WHERE row_number_ = 1
GROUP BY account
