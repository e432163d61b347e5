import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Writes numbered orders to files, exactly once; told to, its tasks stand still once they have taken a checkpoint. */
public final class FlinkFiles {
  /**
   * Arguments: directory of files, directory of checkpoints, port of the REST API, parallelism, orders in all, orders per second,
   * the checkpoint after whose snapshot it stands still (0: none), the checkpoint that it is restored from (-: none), then
   * settings NAME=VALUE.
   */
  public static void main(String[] arguments) throws Exception {
    String files = arguments[0], checkpoints = arguments[1], restore = arguments[7];
    int parallelism = Integer.parseInt(arguments[3]);
    long orders = Long.parseLong(arguments[4]);
    double perSecond = Double.parseDouble(arguments[5]);
    long last = Long.parseLong(arguments[6]);

    Configuration configuration = new Configuration();
    configuration.setString("execution.checkpointing.interval", "1000ms");
    configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    configuration.setString("execution.checkpointing.storage", "filesystem");
    configuration.setString("execution.checkpointing.dir", checkpoints);
    configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    configuration.setString("execution.checkpointing.num-retained", "10");
    configuration.setString("restart-strategy.type", "none");
    configuration.setString("rest.port", arguments[2]);
    configuration.setString("rest.bind-address", "127.0.0.1");
    configuration.setString("rest.address", "127.0.0.1");
    for (int i = 8; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      configuration.setString(setting[0], setting[1]);
    }
    if (!restore.equals("-")) {
      configuration.setString("execution.state-recovery.path", restore);
    }
    FileSystem.initialize(configuration, null);
    StreamExecutionEnvironment environment =
        StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);

    GeneratorFunction<Long, String> order = number -> "order " + number;
    DataGeneratorSource<String> source =
        new DataGeneratorSource<>(order, orders, RateLimiterStrategy.perSecond(perSecond), Types.STRING);
    FileSink<String> sink = FileSink.forRowFormat(new Path(files), new SimpleStringEncoder<String>())
        .withRollingPolicy(OnCheckpointRollingPolicy.build())
        .withBucketAssigner(new BasePathBucketAssigner<>())
        .build();
    environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").uid("orders")
        .transform("stand still", Types.STRING, new StandStill(last)).uid("stand still")
        .sinkTo(sink).name("orders_files").uid("orders_files");
    environment.execute("orders");
  }

  /** Passes records on; after the snapshot of a checkpoint its task stands still, and is told of no completion. */
  static final class StandStill extends AbstractStreamOperator<String> implements OneInputStreamOperator<String, String> {
    private final long last;

    StandStill(long last) {
      this.last = last;
    }

    @Override
    public void processElement(StreamRecord<String> order) {
      output.collect(order);
    }

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
      super.snapshotState(context);
      if (last > 0 && context.getCheckpointId() >= last) {
        getContainingTask().getMailboxExecutorFactory().createExecutor(0)
            .execute(() -> Thread.sleep(Long.MAX_VALUE), "stand still");
      }
    }
  }

  private FlinkFiles() {}
}
