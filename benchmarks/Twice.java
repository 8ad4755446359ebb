package anchor;

/**
 * WORKLOAD VARIANT GUARANTEE PREFIX…: the peer's own catch-up, once for each prefix of topics, all in one JVM.
 * Each run has an application, a state and a topic of results of its own; each prints what it measured.
 */
public final class Twice {
    public static void main(String[] a) throws Exception {
        for (int i = 3; i < a.length; i++) {
            System.setProperty("prefix", a[i]);
            Bench.FIRST.set(0);
            Bench.TAKEN.reset();
            Bench.run(a[0], a[1], a[2], System.getenv("BOOTSTRAP"));
        }
        System.exit(0);
    }
}
