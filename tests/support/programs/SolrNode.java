import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;

/** Runs Solr with the cores of a folder on a port, until the standard input is closed. */
public class SolrNode {
    public static void main(String[] arguments) throws Exception {
        JettyConfig config = JettyConfig.builder().setPort(Integer.parseInt(arguments[1])).build();
        JettySolrRunner runner = new JettySolrRunner(arguments[0], config);
        runner.start();
        System.out.println("STARTED");
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }
}
