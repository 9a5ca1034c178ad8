package oracle.json;

/** What an exception says at its deepest: the cause that began it, and where. */
public final class Causes {

    private Causes() {}

    /** The cause of the cause ... of it, itself where it has none. */
    public static Throwable root(Throwable t) {
        Throwable root = t;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        return root;
    }

    /** `Class.method` that threw it, without packages; many causes have no message of their own. */
    public static String at(Throwable t) {
        StackTraceElement[] trace = t.getStackTrace();
        if (trace.length == 0) {
            return "?";
        }
        String name = trace[0].getClassName();
        return name.substring(name.lastIndexOf('.') + 1) + "." + trace[0].getMethodName();
    }

    /** The exception and its deepest cause in one line. */
    public static String describe(Throwable t) {
        Throwable root = root(t);
        String cause = root == t ? "" : " <- " + root;
        return t + cause + " at " + at(root);
    }
}
