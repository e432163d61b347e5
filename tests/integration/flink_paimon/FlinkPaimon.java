package flink_job;

import java.util.UUID;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.flink.sink.Committable;
import org.apache.paimon.flink.sink.RowAppendTableSink;
import org.apache.paimon.flink.utils.InternalTypeInfo;
import org.apache.paimon.fs.Path;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;

/**
 * Writes numbered orders to an append table of Paimon, exactly once; told to, its tasks stand still once they have taken a
 * checkpoint.
 */
public final class FlinkPaimon {
  private static final Identifier TABLE = Identifier.create("db", "orders");

  /**
   * Arguments: the warehouse, then those of Orders. With the warehouse alone it prints the orders that the table has, one a line.
   */
  public static void main(String[] arguments) throws Exception {
    try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(arguments[0])))) {
      if (arguments.length == 1) {
        print((FileStoreTable) catalog.getTable(TABLE));
        return;
      }
      catalog.createDatabase(TABLE.getDatabaseName(), true);
      // Without compaction its writers and its committer are all that there is.
      Schema schema = Schema.newBuilder().column("id", DataTypes.STRING()).option("write-only", "true").build();
      catalog.createTable(TABLE, schema, true);
      write((FileStoreTable) catalog.getTable(TABLE), new Orders(arguments, 1));
    }
  }

  private static void write(FileStoreTable table, Orders orders) throws Exception {
    DataStream<InternalRow> rows = orders.stream()
        .map(order -> (InternalRow) GenericRow.of(BinaryString.fromString(order)))
        .returns(InternalTypeInfo.fromRowType(table.rowType()));
    RowAppendTableSink sink = new RowAppendTableSink(table, null, null, null);
    String user = UUID.randomUUID().toString();
    DataStream<Committable> written = sink.doWrite(rows, user, null);
    // The committer stands still like the writers: it is in the task of this operator.
    DataStream<Committable> standing = Orders.standStill(written, "stand still before the committer", orders.last);
    sink.doCommit(((SingleOutputStreamOperator<Committable>) standing).setParallelism(1), user);
    orders.environment.execute("orders");
  }

  private static void print(FileStoreTable table) throws Exception {
    ReadBuilder builder = table.newReadBuilder();
    try (RecordReader<InternalRow> reader = builder.newRead().createReader(builder.newScan().plan())) {
      reader.forEachRemaining(row -> System.out.println(row.getString(0)));
    }
  }

  private FlinkPaimon() {}
}
