CREATE TABLE readings (
  sensorId STRING, `value` BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE
) WITH ('connector' = 'kafka', 'topic' = '${prefix}readings', 'format' = 'json', ${source});

CREATE TABLE windows (`key` STRING, `count` BIGINT, `sum` BIGINT)
WITH ('connector' = 'kafka', 'topic' = '${out}', 'key.fields' = 'key', 'key.format' = 'raw', 'value.format' = 'json', ${sink});

INSERT INTO windows
SELECT sensorId || '@' || CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) * CAST(1000 AS BIGINT) AS STRING), COUNT(*), SUM(`value`)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' MINUTES))
GROUP BY sensorId, window_start, window_end
