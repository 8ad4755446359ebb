package headrace.peers;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * WORKLOAD VARIANT GUARANTEE FOLDER PREFIX…: catch up with whole topics, once for each prefix, all in one JVM.
 *
 * <p>A run has an application, a state and a topic of results of its own. It lasts from the first record that is processed until
 * every input offset and all output is committed. Each prints what it measured.
 */
public final class StreamsJobs {
    static final LongAdder TAKEN = new LongAdder();
    static final AtomicLong FIRST = new AtomicLong();

    /** The record's own timestamp; counts records as tasks take them. */
    public static final class Counting implements TimestampExtractor {
        @Override
        public long extract(ConsumerRecord<Object, Object> r, long partitionTime) {
            if (FIRST.get() == 0) {
                FIRST.compareAndSet(0, System.nanoTime());
            }
            TAKEN.increment();
            return r.timestamp();
        }
    }

    public static void main(String[] a) throws Exception {
        for (int i = 4; i < a.length; i++) {
            FIRST.set(0);
            TAKEN.reset();
            run(a[0], a[1], a[2], a[3], a[i], System.getenv("BOOTSTRAP"));
        }
        System.exit(0);
    }

    static Properties config(String app, String guarantee, String bootstrap, String folder, boolean memory) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, app);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee.equals("eos") ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getenv().getOrDefault("COMMIT_MS", "1000"));
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 10 << 20);
        p.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        p.put(StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG, Counting.class.getName());
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        if (memory) {
            p.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        }
        return p;
    }

    static void run(String workload, String variant, String guarantee, String folder, String prefix, String bootstrap) throws Exception {
        String app = "ks-" + workload + "-" + variant + "-" + guarantee + "-" + Long.toString(System.currentTimeMillis(), 36);
        String out = app + "-out";
        Map<String, String> in = Topologies.inputs(workload, prefix);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(out, 2, (short) 1).configs(Map.of("retention.ms", "-1")))).all().get();
            // a global table is read outside the group, so its topic has no group lag
            Set<String> lagged = in.values().stream().filter(t -> !(variant.equals("global") && t.endsWith("tickers"))).collect(Collectors.toSet());
            Map<TopicPartition, Long> ends = ends(admin, lagged);
            long records = ends.values().stream().mapToLong(x -> x).sum();
            KafkaStreams streams = new KafkaStreams(Topologies.of(workload, variant, in, out),
                config(app, guarantee, bootstrap, folder, variant.equals("mem")));
            streams.setUncaughtExceptionHandler(e -> {
                e.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            long brokerBefore = brokerCpu();
            streams.start();
            while (FIRST.get() == 0) {
                Thread.sleep(2);
            }
            double cpuBefore = cpu(), brokerAtFirst = brokerCpu();
            long inputDone = 0, last = 0, give = System.nanoTime() + 240_000_000_000L;
            double cpuAtLast = 0, brokerAtLast = 0;
            String seen = "";
            while (true) {
                Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(app).partitionsToOffsetAndMetadata().get();
                String now = committed.values().stream().mapToLong(o -> o == null ? 0 : o.offset()).sum() + "/" + ends(admin, Set.of(out)).values();
                long t = System.nanoTime();
                if (!now.equals(seen)) {
                    seen = now;
                    last = t;
                    cpuAtLast = cpu();
                    brokerAtLast = brokerCpu();
                }
                boolean all = ends.entrySet().stream().allMatch(e -> committed.get(e.getKey()) != null && committed.get(e.getKey()).offset() >= e.getValue());
                if (all && inputDone == 0) {
                    inputDone = t;
                }
                // W1 holds its last batches for 10 s of wall-clock time by design: its run ends with the input
                if (inputDone != 0 && (workload.equals("w1") || t - last > 4_000_000_000L)) {
                    break;
                }
                if (t > give || streams.state() == KafkaStreams.State.ERROR) {
                    System.err.println("gave up: " + now + " " + streams.state());
                    break;
                }
                Thread.sleep(50);
            }
            double seconds = (last - FIRST.get()) / 1e9;
            Map<String, Object> r = new LinkedHashMap<>();
            r.put("workload", workload);
            r.put("variant", variant);
            r.put("guarantee", guarantee);
            r.put("records", records);
            r.put("seconds", round(seconds));
            r.put("records_per_s", Math.round(records / seconds));
            r.put("input_done_s", round((inputDone - FIRST.get()) / 1e9));
            r.put("taken_with_internal", TAKEN.sum());
            r.put("cpu_s", round(cpuAtLast - cpuBefore));
            r.put("cpu_total_s", round(cpuAtLast));
            r.put("broker_cpu_s", round((brokerAtLast - brokerAtFirst) / 100));
            r.put("peak_rss_mib", status("VmHWM:") / 1024);
            r.put("out_end_offsets", ends(admin, Set.of(out)).values().stream().mapToLong(x -> x).sum());
            streams.close();
            streams.cleanUp();
            Set<String> mine = admin.listTopics().names().get().stream().filter(t -> t.startsWith(app)).collect(Collectors.toSet());
            if (System.getenv("KEEP") != null) {
                r.put("kept", out);
                mine.remove(out);
            }
            r.put("internal_topics", mine.stream().filter(t -> !t.equals(out)).count());
            System.out.println(Json.MAPPER.writeValueAsString(r));
            System.out.flush();
            admin.deleteTopics(mine).all().get();
        }
    }

    /** End offsets: for read_committed readers, so an open transaction's output does not count. */
    static Map<TopicPartition, Long> ends(Admin admin, Collection<String> topics) throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        for (var d : admin.describeTopics(topics).allTopicNames().get().values()) {
            d.partitions().forEach(p -> ask.put(new TopicPartition(d.name(), p.partition()), OffsetSpec.latest()));
        }
        Map<TopicPartition, Long> ends = new java.util.TreeMap<>(java.util.Comparator.comparing(TopicPartition::toString));
        admin.listOffsets(ask, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get().forEach((k, v) -> ends.put(k, v.offset()));
        return ends;
    }

    static double cpu() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    /** CPU ticks (1/100 s) of the broker process named by BROKER_PID, or 0. */
    static long brokerCpu() {
        try {
            String s = Files.readString(Path.of("/proc", System.getenv("BROKER_PID"), "stat"));
            String[] f = s.substring(s.lastIndexOf(')') + 2).split(" ");
            return Long.parseLong(f[11]) + Long.parseLong(f[12]);
        } catch (Exception e) {
            return 0;
        }
    }

    static long status(String field) throws Exception {
        for (String line : new ArrayList<>(Files.readAllLines(Path.of("/proc/self/status")))) {
            if (line.startsWith(field)) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        return 0;
    }

    static double round(double x) {
        return Math.round(x * 100) / 100.0;
    }

    private StreamsJobs() {}
}
