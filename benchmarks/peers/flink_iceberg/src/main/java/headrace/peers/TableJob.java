package headrace.peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * FOLDER BOOTSTRAP TOPIC: copy a topic to an Iceberg table, exactly once, until the process is killed.
 *
 * <p>Checkpoints of a second. A new process goes on from the newest checkpoint that the former one has completed.
 */
public final class TableJob {
    public static void main(String[] a) throws Exception {
        Path folder = Path.of(a[0]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, settings(folder));
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.executeSql("CREATE CATALOG lake WITH ('type' = 'iceberg', 'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', "
            + "'jdbc.schema-version' = 'V1', 'uri' = 'jdbc:sqlite:" + folder.resolve("catalog.db") + "', 'warehouse' = 'file:" + folder.resolve("tables") + "')");
        tables.executeSql("CREATE DATABASE IF NOT EXISTS lake.compared");
        tables.executeSql("CREATE TABLE IF NOT EXISTS lake.compared.visits "
            + "(`partition` INT, `offset` BIGINT, customerId STRING, visitorId STRING, action STRING)");
        tables.executeSql("CREATE TEMPORARY TABLE visits (customerId STRING, visitorId STRING, action STRING, "
            + "`partition` INT METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL) WITH ('connector' = 'kafka', 'format' = 'json', "
            + "'topic' = '" + a[2] + "', 'properties.bootstrap.servers' = '" + a[1] + "', 'properties.group.id' = 'flink-table', "
            + "'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset')");
        tables.executeSql("INSERT INTO lake.compared.visits SELECT `partition`, `offset`, customerId, visitorId, action FROM visits").await();
    }

    private static Configuration settings(Path folder) throws IOException {
        Path checkpoints = Files.createDirectories(folder.resolve("checkpoints"));
        Map<String, String> of = new HashMap<>();
        of.put("parallelism.default", "2");
        of.put("execution.checkpointing.interval", "1 s");
        of.put("execution.checkpointing.mode", "EXACTLY_ONCE");
        of.put("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        of.put("execution.checkpointing.num-retained", "3");
        of.put("execution.checkpointing.dir", checkpoints.toUri().toString());
        of.put("taskmanager.memory.managed.size", "256 mb");
        newest(checkpoints).ifPresent(path -> of.put("execution.state-recovery.path", path.toUri().toString()));
        return Configuration.fromMap(of);
    }

    /** The newest checkpoint that is complete: its file of metadata is written last. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.find(checkpoints, 3, (path, about) -> path.endsWith("_metadata"))) {
            return files.max(Comparator.comparingLong(path -> path.toFile().lastModified())).map(Path::getParent);
        }
    }

    private TableJob() {}
}
