package org.apache.iceberg.rest;

import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Serves the catalog that a database keeps by Iceberg's REST protocol, on loopback only: Iceberg's own server listens everywhere.
 *
 * <p>It is in Iceberg's package, because its servlet is for tests.
 */
public final class RestCatalog {
  /** Arguments: the catalog's name, the database's address, the warehouse, the port. */
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties =
        Map.of(
            CatalogProperties.CATALOG_IMPL, JdbcCatalog.class.getName(),
            CatalogProperties.URI, arguments[1],
            CatalogProperties.WAREHOUSE_LOCATION, arguments[2]);
    RESTCatalogAdapter adapter =
        new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog(arguments[0], properties, new Configuration()));
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[3])));
    server.setHandler(context);
    server.start();
    server.join();
  }

  private RestCatalog() {}
}
