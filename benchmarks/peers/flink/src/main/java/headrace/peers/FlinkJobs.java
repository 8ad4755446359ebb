package headrace.peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * WORKLOAD VARIANT GUARANTEE FOLDER PREFIX…: catch up with whole topics, once for each prefix, all in one JVM.
 *
 * <p>Two slots; checkpoints of a second, exactly once; state in RocksDB, incremental. A run lasts from the moment when all its
 * tasks run until a checkpoint has committed the offset of each input, and all output is committed. Each prints what it measured.
 */
public final class FlinkJobs {
    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int REST_PORT = 18_581;
    private static final Map<String, List<String>> INPUTS = Map.of(
        "w1", List.of("visits"), "w2", List.of("readings"), "w3", List.of("positions", "tickers"), "w4", List.of("tightenings"), "w5", List.of("transfers"));

    public static void main(String[] a) throws Exception {
        for (int i = 4; i < a.length; i++) {
            run(a[0], Path.of(a[3]), a[i], System.getenv("BOOTSTRAP"));
        }
        System.exit(0);
    }

    private static void run(String workload, Path folder, String prefix, String bootstrap) throws Exception {
        String app = "flink-" + workload + "-" + Long.toString(System.currentTimeMillis(), 36), out = app + "-out";
        Set<String> inputs = Set.copyOf(INPUTS.get(workload).stream().map(name -> prefix + name).toList());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(out, 2, (short) 1).configs(Map.of("retention.ms", "-1")))).all().get();
            Map<TopicPartition, Long> ends = ends(admin, inputs);
            JobClient job = start(workload, settings(folder.resolve(app)), app, prefix, out, bootstrap);
            awaitTasks(job);
            long began = System.nanoTime(), last = began;
            double cpuBefore = cpu(), cpuAtLast = 0;
            String seen = "";
            boolean done = false;
            while (!done) {
                Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(app).partitionsToOffsetAndMetadata().get();
                String now = committed + "/" + ends(admin, Set.of(out)).values();
                long t = System.nanoTime();
                if (!now.equals(seen)) {
                    seen = now;
                    last = t;
                    cpuAtLast = cpu();
                }
                boolean all = ends.entrySet().stream()
                    .allMatch(e -> e.getValue() == 0 || committed.get(e.getKey()) != null && committed.get(e.getKey()).offset() >= e.getValue());
                // Batches wait for ten seconds of the wall clock by design: their run ends with the input.
                done = all && (workload.equals("w1") || t - last > 4_000_000_000L);
                if (job.getJobStatus().get().isTerminalState()) {
                    throw new IllegalStateException("The job ended: " + job.getJobStatus().get());
                }
                Thread.sleep(50);
            }
            double seconds = (last - began) / 1e9;
            Map<String, Object> r = new LinkedHashMap<>();
            r.put("records", ends.values().stream().mapToLong(x -> x).sum());
            r.put("seconds", seconds);
            r.put("cpu_s", cpuAtLast - cpuBefore);
            r.put("peak_rss_mib", peakMib());
            r.put("kept", out);
            job.cancel().get();
            System.out.println(MAPPER.writeValueAsString(r));
            System.out.flush();
        }
    }

    private static Configuration settings(Path folder) throws Exception {
        Files.createDirectories(folder);
        Map<String, String> of = new HashMap<>();
        of.put("parallelism.default", "2");
        of.put("rest.bind-port", String.valueOf(REST_PORT));
        of.put("rest.port", String.valueOf(REST_PORT));
        String commits = System.getenv().getOrDefault("COMMIT_MS", "1000") + " ms";
        of.put("execution.checkpointing.interval", commits);
        of.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        of.put("execution.checkpointing.incremental", "true");
        of.put("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString());
        of.put("state.backend.type", "rocksdb");
        of.put("state.backend.rocksdb.localdir", folder.resolve("rocksdb").toString());
        of.put("io.tmp.dirs", folder.resolve("tmp").toString());
        of.put("taskmanager.memory.managed.size", "1 gb");
        of.put("table.exec.mini-batch.enabled", "true");
        of.put("table.exec.mini-batch.allow-latency", commits);
        of.put("table.exec.mini-batch.size", "10000");
        of.put("table.optimizer.agg-phase-strategy", "TWO_PHASE");
        of.put("table.local-time-zone", "UTC");
        return Configuration.fromMap(of);
    }

    private static JobClient start(String workload, Configuration settings, String app, String prefix, String out, String bootstrap)
        throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        if (workload.equals("w1")) {
            return Batches.start(env, app, prefix + "visits", out, bootstrap);
        }
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        String broker = "'properties.bootstrap.servers' = '" + bootstrap + "'";
        String group = ", 'properties.group.id' = '" + app + "', 'properties.isolation.level' = 'read_committed'";
        String once = ", 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '" + app
            + "', 'properties.transaction.timeout.ms' = '600000'";
        String text = resource(workload + ".sql")
            .replace("${source}", broker + group + ", 'scan.startup.mode' = 'earliest-offset'")
            .replace("${upserts}", broker + group)
            .replace("${sink}", broker + once)
            .replace("${prefix}", prefix)
            .replace("${out}", out);
        JobClient job = null;
        for (String statement : text.split(";")) {
            job = tables.executeSql(statement).getJobClient().orElse(null);
        }
        return job;
    }

    private static String resource(String name) throws Exception {
        try (InputStream in = FlinkJobs.class.getResourceAsStream("/" + name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    /** Wait until all tasks of the job run. */
    private static void awaitTasks(JobClient job) throws Exception {
        for (int tries = 0; tries < 600; tries++) {
            try {
                JsonNode vertices = MAPPER.readTree(
                    URI.create("http://127.0.0.1:" + REST_PORT + "/jobs/" + job.getJobID()).toURL()).get("vertices");
                boolean all = !vertices.isEmpty();
                for (JsonNode vertex : vertices) {
                    all &= vertex.get("tasks").get("RUNNING").asInt() == vertex.get("parallelism").asInt();
                }
                if (all) {
                    return;
                }
            } catch (java.io.IOException notThereYet) {
                // The cluster starts.
            }
            Thread.sleep(20);
        }
        throw new IllegalStateException("The job's tasks do not run.");
    }

    /** End offsets for readers of committed records. */
    private static Map<TopicPartition, Long> ends(Admin admin, Collection<String> topics) throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        for (var topic : admin.describeTopics(topics).allTopicNames().get().values()) {
            topic.partitions().forEach(p -> ask.put(new TopicPartition(topic.name(), p.partition()), OffsetSpec.latest()));
        }
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(ask, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get().forEach((k, v) -> ends.put(k, v.offset()));
        return ends;
    }

    private static double cpu() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static long peakMib() throws Exception {
        return Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith("VmHWM:"))
            .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024).findFirst().orElse(0);
    }

    private FlinkJobs() {}
}
