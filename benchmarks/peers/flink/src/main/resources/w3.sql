CREATE TABLE positions (`key` STRING, client STRING, ticker STRING, amount BIGINT, PRIMARY KEY (`key`) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${prefix}positions', 'key.format' = 'raw', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', ${upserts});

CREATE TABLE tickers (ticker STRING, exchange STRING, name STRING, founded INT, PRIMARY KEY (ticker) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${prefix}tickers', 'key.format' = 'raw', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY', ${upserts});

CREATE TABLE enriched (
  `key` STRING, client STRING, ticker STRING, amount BIGINT, exchange STRING, name STRING, founded INT, PRIMARY KEY (`key`) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = '${out}', 'key.format' = 'raw', 'value.format' = 'json', ${sink});

INSERT INTO enriched
SELECT p.`key`, p.client, p.ticker, p.amount, t.exchange, t.name, t.founded
FROM positions p LEFT JOIN tickers t ON p.ticker = t.ticker
