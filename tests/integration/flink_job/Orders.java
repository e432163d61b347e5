package flink_job;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** A job that numbers orders; told to, its tasks stand still once they have taken a checkpoint. */
public final class Orders {
  public final StreamExecutionEnvironment environment;
  /** The checkpoint after whose snapshot it stands still; 0: none. */
  public final long last;
  private final long orders;
  private final double perSecond;

  /**
   * Arguments from the one at {@code first} on: directory of checkpoints, port of the REST API, parallelism, orders in all, orders
   * per second, the checkpoint after whose snapshot it stands still (0: none), the checkpoint that it is restored from (-: none),
   * then settings NAME=VALUE.
   */
  public Orders(String[] arguments, int first) {
    int parallelism = Integer.parseInt(arguments[first + 2]);
    orders = Long.parseLong(arguments[first + 3]);
    perSecond = Double.parseDouble(arguments[first + 4]);
    last = Long.parseLong(arguments[first + 5]);
    String restore = arguments[first + 6];

    Configuration configuration = new Configuration();
    configuration.setString("execution.checkpointing.interval", "1000ms");
    configuration.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
    configuration.setString("execution.checkpointing.storage", "filesystem");
    configuration.setString("execution.checkpointing.dir", arguments[first]);
    configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    configuration.setString("execution.checkpointing.num-retained", "10");
    configuration.setString("restart-strategy.type", "none");
    configuration.setString("rest.port", arguments[first + 1]);
    configuration.setString("rest.bind-address", "127.0.0.1");
    configuration.setString("rest.address", "127.0.0.1");
    for (int i = first + 7; i < arguments.length; i++) {
      String[] setting = arguments[i].split("=", 2);
      configuration.setString(setting[0], setting[1]);
    }
    if (!restore.equals("-")) {
      configuration.setString("execution.state-recovery.path", restore);
    }
    FileSystem.initialize(configuration, null);
    environment = StreamExecutionEnvironment.createLocalEnvironment(parallelism, configuration);
  }

  /** Returns the orders. */
  public DataStream<String> stream() {
    GeneratorFunction<Long, String> order = number -> "order " + number;
    DataGeneratorSource<String> source =
        new DataGeneratorSource<>(order, orders, RateLimiterStrategy.perSecond(perSecond), Types.STRING);
    DataStream<String> numbered = environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders").uid("orders");
    return standStill(numbered, "stand still", last);
  }

  /** Returns what {@code stream} has; the task that passes it on stands still after the snapshot of checkpoint {@code last}. */
  public static <T> DataStream<T> standStill(DataStream<T> stream, String uid, long last) {
    return stream.transform("stand still", stream.getType(), new StandStill<T>(last)).uid(uid);
  }

  /** Passes records on; after the snapshot of a checkpoint its task stands still, and is told of no completion. */
  static final class StandStill<T> extends AbstractStreamOperator<T> implements OneInputStreamOperator<T, T> {
    private final long last;

    StandStill(long last) {
      this.last = last;
    }

    @Override
    public void processElement(StreamRecord<T> order) {
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
}
