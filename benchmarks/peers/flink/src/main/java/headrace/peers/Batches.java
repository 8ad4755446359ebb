package headrace.peers;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Per customer {customerId, events} at 100 events, or ten seconds of the wall clock after the first. SQL has no such windows. */
final class Batches {
    private static final TypeInformation<Tuple2<String, byte[]>> RECORD = Types.TUPLE(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    static JobClient start(StreamExecutionEnvironment env, String app, String in, String out, String bootstrap) throws Exception {
        KafkaSource<Tuple2<String, byte[]>> source = KafkaSource.<Tuple2<String, byte[]>>builder()
            .setBootstrapServers(bootstrap).setTopics(in).setGroupId(app).setStartingOffsets(OffsetsInitializer.earliest())
            .setProperty("isolation.level", "read_committed").setDeserializer(new ByCustomer()).build();
        Properties producer = new Properties();
        producer.put("transaction.timeout.ms", "600000");
        KafkaSink<Tuple2<String, byte[]>> sink = KafkaSink.<Tuple2<String, byte[]>>builder()
            .setBootstrapServers(bootstrap).setKafkaProducerConfig(producer).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(app)
            .setRecordSerializer(new ToTopic(out))
            .build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "visits").keyBy(r -> r.f0, Types.STRING)
            .process(new Batcher(), RECORD).sinkTo(sink);
        return env.executeAsync(app);
    }

    /** The customer of a visit, and its JSON. */
    static final class ByCustomer implements KafkaRecordDeserializationSchema<Tuple2<String, byte[]>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<Tuple2<String, byte[]>> to) throws IOException {
            to.collect(Tuple2.of(FlinkJobs.MAPPER.readTree(r.value()).get("customerId").asText(), r.value()));
        }

        @Override
        public TypeInformation<Tuple2<String, byte[]>> getProducedType() {
            return RECORD;
        }
    }

    /** A customer's batch as a record. */
    record ToTopic(String topic) implements KafkaRecordSerializationSchema<Tuple2<String, byte[]>> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(Tuple2<String, byte[]> batch, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, batch.f0.getBytes(StandardCharsets.UTF_8), batch.f1);
        }
    }

    static final class Batcher extends KeyedProcessFunction<String, Tuple2<String, byte[]>, Tuple2<String, byte[]>> {
        private static final int MAX = 100;
        private static final long AGE_MS = 10_000;
        private transient ListState<byte[]> events;
        private transient ValueState<Integer> count;
        private transient ValueState<Long> due;

        @Override
        public void open(OpenContext context) {
            events = getRuntimeContext().getListState(new ListStateDescriptor<>("events", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.INT));
            due = getRuntimeContext().getState(new ValueStateDescriptor<>("due", Types.LONG));
        }

        @Override
        public void processElement(Tuple2<String, byte[]> visit, Context context, Collector<Tuple2<String, byte[]>> to) throws Exception {
            events.add(visit.f1);
            int number = count.value() == null ? 1 : count.value() + 1;
            if (number >= MAX) {
                context.timerService().deleteProcessingTimeTimer(due.value());
                emit(visit.f0, to);
                return;
            }
            count.update(number);
            if (number == 1) {
                due.update(context.timerService().currentProcessingTime() + AGE_MS);
                context.timerService().registerProcessingTimeTimer(due.value());
            }
        }

        @Override
        public void onTimer(long at, OnTimerContext context, Collector<Tuple2<String, byte[]>> to) throws Exception {
            emit(context.getCurrentKey(), to);
        }

        private void emit(String customer, Collector<Tuple2<String, byte[]>> to) throws Exception {
            ByteArrayOutputStream batch = new ByteArrayOutputStream();
            batch.writeBytes(("{\"customerId\":\"" + customer + "\",\"events\":").getBytes(StandardCharsets.UTF_8));
            char before = '[';
            for (byte[] event : events.get()) {
                batch.write(before);
                batch.writeBytes(event);
                before = ',';
            }
            batch.writeBytes("]}".getBytes(StandardCharsets.UTF_8));
            to.collect(Tuple2.of(customer, batch.toByteArray()));
            events.clear();
            count.clear();
            due.clear();
        }
    }

    private Batches() {}
}
