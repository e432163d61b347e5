import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A Flink with ZooKeeper's high availability in one process: it recovers its job, or, told "submit", is given one. */
public final class HighlyAvailableOrders {
  private static final int PARALLELISM = 2;

  /**
   * Stands still from the third checkpoint on: in its snapshot, while hold-snapshot is there; or, the first subtask, with all of
   * its task before that learns of the checkpoint's completion and commits, while hold-commit is there.
   */
  static final class Held extends RichMapFunction<String, String> implements CheckpointedFunction {
    private static final long FIRST_HELD = 3;
    private final String work;
    private transient boolean isToHold;

    Held(String work) {
      this.work = work;
    }

    @Override
    public String map(String order) throws Exception {
      if (isToHold) {
        Files.createFile(Path.of(work, "held"));
        awaitNo("hold-commit");
        isToHold = false;
      }
      return order;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) {}

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
      if (context.getCheckpointId() < FIRST_HELD) {
        return;
      }
      awaitNo("hold-snapshot");
      boolean isFirst = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() == 0;
      isToHold = isFirst && Files.exists(Path.of(work, "hold-commit"));
      // The checkpoint is not completed before all have answered: by then the first one stands still.
      while (!isFirst && Files.exists(Path.of(work, "hold-commit")) && !Files.exists(Path.of(work, "held"))) {
        Thread.sleep(10);
      }
    }

    private void awaitNo(String file) throws Exception {
      while (Files.exists(Path.of(work, file))) {
        Thread.sleep(10);
      }
    }
  }

  /** Arguments: "submit" or "recover", quorum, its work directory, port of the REST API, bootstrap servers, topic, orders. */
  public static void main(String[] arguments) throws Exception {
    String work = arguments[2];
    Configuration configuration = new Configuration();
    configuration.setString("high-availability.type", "zookeeper");
    configuration.setString("high-availability.zookeeper.quorum", arguments[1]);
    configuration.setString("high-availability.zookeeper.path.root", "/flink");
    configuration.setString("high-availability.cluster-id", "/orders");
    // Locks of a JobManager that was killed last as long; a minute by default.
    configuration.setString("high-availability.zookeeper.client.session-timeout", "6000");
    configuration.setString("high-availability.storageDir", "file://" + work + "/ha");
    configuration.setString("execution.checkpointing.interval", "2000ms");
    configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    configuration.setString("execution.checkpointing.storage", "filesystem");
    configuration.setString("execution.checkpointing.dir", "file://" + work + "/checkpoints");
    configuration.setString("restart-strategy.type", "none");
    configuration.setString("rest.bind-address", "127.0.0.1");
    configuration.setString("rest.address", "127.0.0.1");
    configuration.setString("rest.port", arguments[3]);
    MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
        .setConfiguration(configuration).setNumTaskManagers(1).setNumSlotsPerTaskManager(PARALLELISM).build());
    cluster.start();
    if (arguments[0].equals("submit")) {
      submit(cluster, configuration, work, arguments[4], arguments[5], Long.parseLong(arguments[6]));
    }
    Thread.currentThread().join();
  }

  private static void submit(
      MiniCluster cluster, Configuration configuration, String work, String bootstrapServers, String topic, long orders)
      throws Exception {
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, configuration);
    GeneratorFunction<Long, String> order = number -> "order " + number;
    DataGeneratorSource<String> source =
        new DataGeneratorSource<>(order, orders, RateLimiterStrategy.perSecond(20), Types.STRING);
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(bootstrapServers)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(topic)
        .setProperty("transaction.timeout.ms", "300000")
        .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
            .setTopic(topic)
            .setValueSerializationSchema(new SimpleStringSchema())
            .build())
        .build();
    environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").uid("orders")
        .map(new Held(work)).returns(Types.STRING).uid("held").sinkTo(sink).uid("sink");
    cluster.submitJob(environment.getStreamGraph().getJobGraph()).get();
  }

  private HighlyAvailableOrders() {}
}
