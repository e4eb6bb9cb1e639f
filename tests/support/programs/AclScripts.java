  // Does what the two scripts of feedferry do, in place of Painless, which is not published for this
  // server. It shows that updates, versions and results work, not that the script is compiled.
  public static class AclScripts extends Plugin implements @PACKAGE.plugins.ScriptPlugin {
    @Override
    public @PACKAGE.script.ScriptEngine getScriptEngine(
        Settings settings, java.util.Collection<@PACKAGE.script.ScriptContext<?>> contexts) {
      return new Engine();
    }
  }

  static class Engine implements @PACKAGE.script.ScriptEngine {
    @Override
    public String getType() {
      return "painless";
    }

    @Override
    public java.util.Set<@PACKAGE.script.ScriptContext<?>> getSupportedContexts() {
      return java.util.Set.of(@PACKAGE.script.UpdateScript.CONTEXT);
    }

    @Override
    public <T> T compile(
        String name, String code, @PACKAGE.script.ScriptContext<T> context,
        java.util.Map<String, String> options) {
      @PACKAGE.script.UpdateScript.Factory factory =
          (params, ctx) ->
              new @PACKAGE.script.UpdateScript(params, ctx) {
                @Override
                public void execute() {
                  if (code.equals("ctx.op = 'none'")) ctx.put("op", "none");
                  else if (code.equals("@ACL_SCRIPT")) changeAcl(params, ctx);
                  else throw new IllegalArgumentException("another script: " + code);
                }
              };
      return context.factoryClazz.cast(factory);
    }

    @SuppressWarnings("unchecked")
    static void changeAcl(java.util.Map<String, Object> params, java.util.Map<String, Object> ctx) {
      var source = (java.util.Map<String, Object>) ctx.get("_source");
      var held = (Number) source.get("version");
      var version = (Number) params.get("version");
      var denied = (java.util.List<Object>) source.get("acl_1_deny_1");
      boolean withheld = denied != null && denied.contains("*");
      if (withheld || held != null && held.longValue() >= version.longValue()) {
        ctx.put("op", "none");
        return;
      }
      source.keySet().removeIf(name -> name.startsWith("acl_"));
      source.putAll((java.util.Map<String, Object>) params.get("fields"));
      source.put("version", version);
    }
  }
