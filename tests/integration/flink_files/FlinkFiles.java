import flink_job.Orders;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/** Writes numbered orders to files, exactly once; told to, its tasks stand still once they have taken a checkpoint. */
public final class FlinkFiles {
  /** Arguments: directory of files, then those of Orders. */
  public static void main(String[] arguments) throws Exception {
    Orders orders = new Orders(arguments, 1);
    FileSink<String> sink = FileSink.forRowFormat(new Path(arguments[0]), new SimpleStringEncoder<String>())
        .withRollingPolicy(OnCheckpointRollingPolicy.build())
        .withBucketAssigner(new BasePathBucketAssigner<>())
        .build();
    orders.stream().sinkTo(sink).name("orders_files").uid("orders_files");
    try {
      orders.environment.execute("orders");
    } catch (Exception failed) {
      failed.printStackTrace();
      System.exit(1);
    }
    // Threads of Flink's file system for S3 would keep the JVM.
    System.exit(0);
  }

  private FlinkFiles() {}
}
