// A node of OpenSearch or Elasticsearch in this process, made of its Maven artifacts.
// It ends when its standard input ends, so that it does not outlive the program that started it.
// The words in capitals with @ are replaced, as the two servers and their versions differ in them.
// The classes of AclScripts.java are added for a server without Painless.
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import @PACKAGE.common.settings.Settings;
import @PACKAGE.node.InternalSettingsPreparer;
import @PACKAGE.node.Node;
import @PACKAGE.plugins.*;

public class SearchNode {
  static class Embedded extends Node {
    Embedded(Path home, List<@PLUGIN> plugins) {
      super(
          InternalSettingsPreparer.prepareEnvironment(
              Settings.builder().put("path.home", home.toString()).build(),
              Collections.emptyMap(), home.resolve("config"), () -> "n1"),
          plugins, false);
    }
  }

@ACL_SCRIPTS
  @SuppressWarnings("unchecked")
  static @PLUGIN plugin(String name) throws Exception {
    return @MAKE_PLUGIN;
  }

  public static void main(String[] words) throws Exception {
    List<@PLUGIN> plugins = new ArrayList<>();
    for (int at = 1; at < words.length; at++) plugins.add(plugin(words[at]));
    new Embedded(Path.of(words[0]), plugins).start();
    System.out.println("STARTED");
    InputStream end = System.in;
    while (end.read() != -1) {}
    Runtime.getRuntime().halt(0);
  }
}
