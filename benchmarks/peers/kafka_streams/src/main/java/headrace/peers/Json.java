package headrace.peers;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;

/** JSON serdes and the value types of the four workloads. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();

    static <T> Serde<T> serde(Class<T> type) {
        ObjectReader reader = MAPPER.readerFor(type);
        ObjectWriter writer = MAPPER.writerFor(type);
        Serializer<T> ser = (topic, v) -> {
            try {
                return v == null ? null : writer.writeValueAsBytes(v);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
        Deserializer<T> de = (topic, b) -> {
            try {
                return b == null ? null : reader.readValue(b);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
        return Serdes.serdeFrom(ser, de);
    }

    static final class Visit {
        public String customerId, visitorId, action;
    }

    static final class Reading {
        public String sensorId;
        public long value;
    }

    static final class Agg {
        public long count, sum;

        Agg add(long v) {
            count++;
            sum += v;
            return this;
        }

        static Agg merge(Agg a, Agg b) {
            Agg c = new Agg();
            c.count = a.count + b.count;
            c.sum = a.sum + b.sum;
            return c;
        }
    }

    static final class Position {
        public String client, ticker;
        public long amount;
    }

    static final class Ticker {
        public String exchange, name;
        public int founded;
    }

    static final class Enriched {
        public String client, ticker, exchange, name;
        public long amount;
        public Integer founded;

        static Enriched of(Position p, Ticker t) {
            Enriched e = new Enriched();
            e.client = p.client;
            e.ticker = p.ticker;
            e.amount = p.amount;
            if (t != null) {
                e.exchange = t.exchange;
                e.name = t.name;
                e.founded = t.founded;
            }
            return e;
        }
    }

    static final class Tightening {
        public String customer, screw, topic;
        public long count, offset;
        public int partition;
    }

    /** The non-idempotent state, with the last root offset it has taken in. */
    static final class Total {
        public String topic;
        public int partition;
        public long offset = -1, sum;
    }

    static final class Transfer {
        public String source, target;
        public long amount;
    }

    static final class Balance {
        public long balance;

        Balance add(long change) {
            balance += change;
            return this;
        }
    }

    private Json() {}
}
