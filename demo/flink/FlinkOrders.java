import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Writes numbered orders to a topic, exactly once, with a checkpoint every 5 s, in a Flink inside this process. */
public final class FlinkOrders {
  private static final int PARALLELISM = 2;
  private static final String CHECKPOINT_INTERVAL = "5000ms";
  private static final String TRANSACTION_TIMEOUT_MS = "60000";

  /** Arguments: bootstrap servers, topic, directory of checkpoints, port of the REST API, orders per second. */
  public static void main(String[] arguments) throws Exception {
    String bootstrapServers = arguments[0], topic = arguments[1], checkpoints = arguments[2];
    int port = Integer.parseInt(arguments[3]);
    double ordersPerSecond = Double.parseDouble(arguments[4]);

    Configuration configuration = new Configuration();
    configuration.setString("execution.checkpointing.interval", CHECKPOINT_INTERVAL);
    configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    configuration.setString("execution.checkpointing.storage", "filesystem");
    configuration.setString("execution.checkpointing.dir", "file://" + checkpoints);
    configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    configuration.setString("restart-strategy.type", "fixed-delay");
    configuration.setString("restart-strategy.fixed-delay.attempts", "100");
    configuration.setString("restart-strategy.fixed-delay.delay", "2 s");
    configuration.setString("rest.port", Integer.toString(port));
    configuration.setString("rest.bind-address", "127.0.0.1");
    configuration.setString("rest.address", "127.0.0.1");
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, configuration);

    GeneratorFunction<Long, String> order = number -> "order " + number;
    DataGeneratorSource<String> orders = new DataGeneratorSource<>(
        order, Long.MAX_VALUE, RateLimiterStrategy.perSecond(ordersPerSecond), Types.STRING);
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(bootstrapServers)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(topic)
        .setProperty("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
            .setTopic(topic)
            .setValueSerializationSchema(new SimpleStringSchema())
            .build())
        .build();
    environment.fromSource(orders, WatermarkStrategy.noWatermarks(), "orders").uid("orders").sinkTo(sink).uid("sink");
    environment.execute("orders");
  }

  private FlinkOrders() {}
}
