package headrace.peers;

import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.unbounded;
import static org.apache.kafka.streams.kstream.Suppressed.untilWindowCloses;

import headrace.peers.Json.Agg;
import headrace.peers.Json.Balance;
import headrace.peers.Json.Enriched;
import headrace.peers.Json.Position;
import headrace.peers.Json.Reading;
import headrace.peers.Json.Ticker;
import headrace.peers.Json.Tightening;
import headrace.peers.Json.Total;
import headrace.peers.Json.Transfer;
import headrace.peers.Json.Visit;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** The four workloads, plus the unsuppressed aggregate that the latency run uses. */
final class Topologies {
    static final Serde<String> S = Serdes.String();

    static Topology of(String workload, String variant, Map<String, String> in, String out) {
        return switch (workload) {
            case "w1" -> batches(variant, in.get("visits"), out);
            case "w2" -> windows(in.get("readings"), out, true);
            case "w2live" -> windows(in.get("readings"), out, false);
            case "w3" -> variant.equals("global") ? globalJoin(in, out) : fkJoin(in, out);
            case "w4" -> replayProof(in.get("tightenings"), out);
            case "w5" -> balances(in.get("transfers"), out);
            default -> throw new IllegalArgumentException(workload);
        };
    }

    static Map<String, String> inputs(String workload, String prefix) {
        return switch (workload) {
            case "w1" -> Map.of("visits", prefix + "visits");
            case "w2", "w2live" -> Map.of("readings", prefix + "readings");
            case "w3" -> Map.of("positions", prefix + "positions", "tickers", prefix + "tickers");
            case "w4" -> Map.of("tightenings", prefix + "tightenings");
            case "w5" -> Map.of("transfers", prefix + "transfers");
            default -> throw new IllegalArgumentException(workload);
        };
    }

    static Topology windows(String in, String out, boolean suppressed) {
        StreamsBuilder b = new StreamsBuilder();
        var table = b.stream(in, Consumed.with(S, Json.serde(Reading.class)))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(2), Duration.ofMinutes(2)))
            .aggregate(Agg::new, (k, v, a) -> a.add(v.value), Materialized.with(S, Json.serde(Agg.class)));
        (suppressed ? table.suppress(untilWindowCloses(unbounded())) : table).toStream((w, v) -> w.key() + "@" + w.window().start())
            .to(out, Produced.with(S, Json.serde(Agg.class)));
        return b.build();
    }

    static Topology fkJoin(Map<String, String> in, String out) {
        StreamsBuilder b = new StreamsBuilder();
        KTable<String, Position> positions = b.table(in.get("positions"), Consumed.with(S, Json.serde(Position.class)));
        KTable<String, Ticker> tickers = b.table(in.get("tickers"), Consumed.with(S, Json.serde(Ticker.class)));
        positions.leftJoin(tickers, p -> p.ticker, Enriched::of, Materialized.with(S, Json.serde(Enriched.class)))
            .toStream().to(out, Produced.with(S, Json.serde(Enriched.class)));
        return b.build();
    }

    static Topology globalJoin(Map<String, String> in, String out) {
        StreamsBuilder b = new StreamsBuilder();
        GlobalKTable<String, Ticker> tickers = b.globalTable(in.get("tickers"), Consumed.with(S, Json.serde(Ticker.class)));
        b.stream(in.get("positions"), Consumed.with(S, Json.serde(Position.class)))
            .join(tickers, (k, p) -> p == null ? null : p.ticker, Enriched::of)
            .to(out, Produced.with(S, Json.serde(Enriched.class)));
        return b.build();
    }

    static Topology replayProof(String in, String out) {
        StreamsBuilder b = new StreamsBuilder();
        b.stream(in, Consumed.with(S, Json.serde(Tightening.class)))
            .processValues(RootOffset::new)
            .groupByKey(Grouped.with(S, Json.serde(Tightening.class)))
            .aggregate(Total::new, (k, t, total) -> {
                boolean same = t.partition == total.partition && t.topic.equals(total.topic);
                if (same && t.offset <= total.offset) {
                    return total; // a replay
                }
                total.topic = t.topic;
                total.partition = t.partition;
                total.offset = t.offset;
                total.sum += t.count;
                return total;
            }, Materialized.with(S, Json.serde(Total.class)))
            .toStream().to(out, Produced.with(S, Json.serde(Total.class)));
        return b.build();
    }

    /** Copies the first entry of the source chain from the header into the value. */
    static final class RootOffset implements FixedKeyProcessor<String, Tightening, Tightening> {
        private FixedKeyProcessorContext<String, Tightening> context;

        @Override
        public void init(FixedKeyProcessorContext<String, Tightening> context) {
            this.context = context;
        }

        @Override
        public void process(FixedKeyRecord<String, Tightening> r) {
            try {
                JsonNode root = Json.MAPPER.readTree(r.headers().lastHeader("source-chain").value()).get(0);
                Tightening t = r.value();
                t.topic = root.get(0).asText();
                t.partition = root.get(1).asInt();
                t.offset = root.get(2).asLong();
                context.forward(r.withValue(t));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /** The balance of each account: replays are discarded by a store, then each transfer is two entries, by account. */
    static Topology balances(String in, String out) {
        StreamsBuilder b = new StreamsBuilder();
        b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("roots"), Serdes.Integer(), Serdes.Long()));
        b.stream(in, Consumed.with(S, Json.serde(Transfer.class)))
            .processValues(Unrepeated::new, "roots")
            .flatMap((k, t) -> List.of(KeyValue.pair(t.source, -t.amount), KeyValue.pair(t.target, t.amount)))
            .groupByKey(Grouped.with(S, Serdes.Long()))
            .aggregate(Balance::new, (k, change, balance) -> balance.add(change), Materialized.with(S, Json.serde(Balance.class)))
            .toStream().to(out, Produced.with(S, Json.serde(Balance.class)));
        return b.build();
    }

    /** Forwards a transfer whose root has a higher offset than all before it in its partition. */
    static final class Unrepeated implements FixedKeyProcessor<String, Transfer, Transfer> {
        private FixedKeyProcessorContext<String, Transfer> context;
        private KeyValueStore<Integer, Long> roots;

        @Override
        public void init(FixedKeyProcessorContext<String, Transfer> context) {
            this.context = context;
            roots = context.getStateStore("roots");
        }

        @Override
        public void process(FixedKeyRecord<String, Transfer> r) {
            try {
                JsonNode root = Json.MAPPER.readTree(r.headers().lastHeader("source-chain").value()).get(0);
                Long last = roots.get(root.get(1).asInt());
                if (last == null || root.get(2).asLong() > last) {
                    roots.put(root.get(1).asInt(), root.get(2).asLong());
                    context.forward(r);
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    static Topology batches(String variant, String in, String out) {
        String[] v = variant.split("-"); // mem|rocks - nolog|log
        var supplier = v[0].equals("mem") ? Stores.inMemoryKeyValueStore("batches") : Stores.persistentKeyValueStore("batches");
        StoreBuilder<KeyValueStore<String, byte[]>> store = Stores.keyValueStoreBuilder(supplier, S, Serdes.ByteArray());
        Topology t = new Topology();
        t.addSource("in", S.deserializer(), Serdes.ByteArray().deserializer(), in);
        t.addProcessor("batch", Batcher::new, "in");
        t.addStateStore(v[1].equals("log") ? store : store.withLoggingDisabled(), "batch");
        t.addSink("out", out, S.serializer(), Serdes.ByteArray().serializer(), "batch");
        return t;
    }

    /** Per customer: emit {customerId, events} at 100 events, or 10 s of wall-clock time after the batch was opened. */
    static final class Batcher implements Processor<String, byte[], String, byte[]> {
        private static final int MAX = 100;
        private static final long AGE = 10_000;
        private final Serde<Visit> visits = Json.serde(Visit.class);
        private final Map<String, Long> opened = new LinkedHashMap<>(); // oldest first, so a punctuation looks at due batches only
        private ProcessorContext<String, byte[]> context;
        private KeyValueStore<String, byte[]> store; // count, then (length, event) for each event

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            this.context = context;
            store = context.getStateStore("batches");
            try (KeyValueIterator<String, byte[]> it = store.all()) {
                it.forEachRemaining(e -> opened.put(e.key, context.currentSystemTimeMs()));
            }
            context.schedule(Duration.ofSeconds(1), PunctuationType.WALL_CLOCK_TIME, this::flushDue);
        }

        @Override
        public void process(Record<String, byte[]> r) {
            String key = visits.deserializer().deserialize(null, r.value()).customerId;
            byte[] old = store.get(key);
            int length = old == null ? 4 : old.length;
            ByteBuffer b = ByteBuffer.allocate(length + 4 + r.value().length);
            b.put(old == null ? new byte[4] : old).putInt(r.value().length).put(r.value());
            int count = b.getInt(0) + 1;
            b.putInt(0, count);
            if (count >= MAX) {
                emit(key, b.array(), r.timestamp());
                opened.remove(key);
            } else {
                store.put(key, b.array());
                if (old == null) {
                    opened.put(key, context.currentSystemTimeMs());
                }
            }
        }

        private void flushDue(long now) {
            for (Iterator<Map.Entry<String, Long>> it = opened.entrySet().iterator(); it.hasNext(); it.remove()) {
                Map.Entry<String, Long> e = it.next();
                if (now - e.getValue() < AGE) {
                    break;
                }
                emit(e.getKey(), store.get(e.getKey()), now);
            }
        }

        private void emit(String key, byte[] batch, long timestamp) {
            ByteBuffer in = ByteBuffer.wrap(batch);
            int count = in.getInt();
            byte[] head = ("{\"customerId\":\"" + key + "\",\"events\":[").getBytes(StandardCharsets.UTF_8);
            ByteBuffer b = ByteBuffer.allocate(head.length + batch.length);
            b.put(head);
            for (int i = 0; i < count; i++) {
                int length = in.getInt();
                b.put(batch, in.position(), length).put((byte) (i + 1 < count ? ',' : ']'));
                in.position(in.position() + length);
            }
            b.put((byte) '}');
            byte[] value = java.util.Arrays.copyOf(b.array(), b.position());
            context.forward(new Record<>(key, value, timestamp));
            store.delete(key);
        }
    }

    private Topologies() {}
}
