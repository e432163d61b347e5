package org.apache.iceberg.flink.sink;

import flink_job.Orders;
import java.util.Map;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.CommittableMessage;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreCommitTopology;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.util.FlinkCompatibilityUtil;
import org.apache.iceberg.io.WriteResult;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;

/**
 * Writes numbered orders to an Iceberg table, exactly once; told to, its tasks stand still once they have taken a checkpoint.
 *
 * <p>It is in Iceberg's package, because only there a sink can be had that is not part of a job yet.
 */
public final class FlinkIceberg {
  private static final TableIdentifier TABLE = TableIdentifier.of("db", "orders");
  private static final String SINK = "orders_iceberg";

  /**
   * Arguments: the catalog (hadoop, or the address of a database), its warehouse, then those of Orders.
   */
  public static void main(String[] arguments) throws Exception {
    Orders orders = new Orders(arguments, 2);
    CatalogLoader catalog = catalog(arguments[0], arguments[1]);
    Schema schema = new Schema(Types.NestedField.required(1, "id", Types.StringType.get()));
    createTable(catalog.loadCatalog(), schema);

    DataStream<RowData> rows = orders.stream()
        .map(order -> (RowData) GenericRowData.of(StringData.fromString(order)))
        .returns(FlinkCompatibilityUtil.toTypeInfo(FlinkSchemaUtil.convert(schema)));
    IcebergSink sink = IcebergSink.forRowData(rows)
        .tableLoader(TableLoader.fromCatalog(catalog, TABLE))
        .uidSuffix(SINK)
        .build();
    rows.sinkTo(new StandingSink(sink, orders.last)).uid(SINK).name(SINK);
    orders.environment.execute("orders");
  }

  private static CatalogLoader catalog(String catalog, String warehouse) {
    String location = CatalogProperties.WAREHOUSE_LOCATION;
    if (catalog.equals("hadoop")) {
      return CatalogLoader.hadoop("tests", new Configuration(), Map.of(location, warehouse));
    }
    Map<String, String> properties = Map.of(CatalogProperties.URI, catalog, location, warehouse);
    return CatalogLoader.custom("tests", properties, new Configuration(), JdbcCatalog.class.getName());
  }

  private static void createTable(Catalog catalog, Schema schema) {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    if (!namespaces.namespaceExists(TABLE.namespace())) {
      namespaces.createNamespace(TABLE.namespace());
    }
    if (!catalog.tableExists(TABLE)) {
      catalog.createTable(TABLE, schema);
    }
  }

  /** Iceberg's sink, whose committer stands still like the writers: it is in a task of its own. */
  static final class StandingSink
      implements Sink<RowData>, SupportsPreWriteTopology<RowData>, SupportsCommitter<IcebergCommittable>,
          SupportsPreCommitTopology<WriteResult, IcebergCommittable> {
    private final IcebergSink sink;
    private final long last;

    StandingSink(IcebergSink sink, long last) {
      this.sink = sink;
      this.last = last;
    }

    @Override
    public DataStream<CommittableMessage<IcebergCommittable>> addPreCommitTopology(
        DataStream<CommittableMessage<WriteResult>> written) {
      return Orders.standStill(sink.addPreCommitTopology(written), "stand still before the committer", last);
    }

    @Override
    public DataStream<RowData> addPreWriteTopology(DataStream<RowData> rows) {
      return sink.addPreWriteTopology(rows);
    }

    @Override
    public SinkWriter<RowData> createWriter(WriterInitContext context) {
      return sink.createWriter(context);
    }

    @Override
    public Committer<IcebergCommittable> createCommitter(CommitterInitContext context) {
      return sink.createCommitter(context);
    }

    @Override
    public SimpleVersionedSerializer<IcebergCommittable> getCommittableSerializer() {
      return sink.getCommittableSerializer();
    }

    @Override
    public SimpleVersionedSerializer<WriteResult> getWriteResultSerializer() {
      return sink.getWriteResultSerializer();
    }
  }

  private FlinkIceberg() {}
}
