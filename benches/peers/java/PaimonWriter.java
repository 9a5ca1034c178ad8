import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.types.DataTypes;

/**
 * Writes the rows of a file to a new table with released Paimon, once per line on standard
 * input, and answers with CPU-seconds of this process and seconds on the wall clock.
 *
 * <p>Arguments: ROWS-FILE. A line: {@code FOLDER WORD...}; words are {@code dt} (partitioned by dt), {@code
 * key=id}, {@code commits=10}, {@code full} (at the end every bucket is fully compacted), and options of the
 * table as {@code name=value}.
 */
public class PaimonWriter {
    private static long[] ids;
    private static double[] amounts;
    private static BinaryString[] names;
    private static BinaryString[] dts;

    public static void main(String[] args) throws Exception {
        load(Path.of(args[0]));
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var os = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            System.gc();
            long cpu = os.getProcessCpuTime();
            long wall = System.nanoTime();
            write(Path.of(words[0]), List.of(words).subList(1, words.length));
            System.out.println(
                    (os.getProcessCpuTime() - cpu) / 1e9 + " " + (System.nanoTime() - wall) / 1e9);
        }
    }

    private static void load(Path path) throws IOException {
        try (DataInputStream in =
                new DataInputStream(new BufferedInputStream(Files.newInputStream(path), 1 << 20))) {
            int rows = in.readInt();
            ids = new long[rows];
            amounts = new double[rows];
            names = new BinaryString[rows];
            dts = new BinaryString[rows];
            for (int i = 0; i < rows; i++) {
                ids[i] = in.readLong();
                amounts[i] = in.readDouble();
                names[i] = text(in);
                dts[i] = text(in);
            }
        }
    }

    private static BinaryString text(DataInputStream in) throws IOException {
        return BinaryString.fromBytes(in.readNBytes(in.readInt()));
    }

    /** Makes a table by the words of a line, and writes all rows in so many commits. */
    private static void write(Path folder, List<String> words) throws Exception {
        int commits = 1;
        boolean full = false;
        Schema.Builder columns =
                Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .column("name", DataTypes.STRING())
                        .column("amount", DataTypes.DOUBLE())
                        .column("dt", DataTypes.STRING());
        String bucket = "-1";
        for (String word : words) {
            String value = word.substring(word.indexOf('=') + 1);
            if (word.equals("dt")) {
                columns.partitionKeys("dt");
            } else if (word.equals("full")) {
                full = true;
            } else if (word.startsWith("key=")) {
                columns.primaryKey(value);
            } else if (word.startsWith("commits=")) {
                commits = Integer.parseInt(value);
            } else if (word.startsWith("bucket=")) {
                bucket = value;
            } else {
                columns.option(word.substring(0, word.indexOf('=')), value);
            }
        }
        int buckets = Math.max(1, Integer.parseInt(bucket));
        org.apache.paimon.fs.Path warehouse = new org.apache.paimon.fs.Path(folder.toUri());
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(warehouse))) {
            catalog.createDatabase("db", true);
            Identifier name = Identifier.create("db", "t");
            catalog.createTable(name, columns.option("bucket", bucket).build(), false);
            Table table = catalog.getTable(name);
            StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser("bench");
            try (IOManager io = IOManager.create(folder.resolve("spill").toString());
                    StreamTableWrite write = builder.newWrite();
                    StreamTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                int part = (ids.length + commits - 1) / commits;
                for (int n = 0; n < commits; n++) {
                    for (int i = n * part; i < Math.min(ids.length, (n + 1) * part); i++) {
                        write.write(GenericRow.of(ids[i], names[i], amounts[i], dts[i]));
                    }
                    boolean last = n + 1 == commits;
                    for (int b = 0; full && last && b < buckets; b++) {
                        write.compact(BinaryRow.EMPTY_ROW, b, true);
                    }
                    commit.commit(n, write.prepareCommit(full && last, n));
                }
            }
        }
        sync(folder);
    }

    /** Paimon's local file system leaves syncing to others. */
    private static void sync(Path folder) throws IOException {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(folder)) {
            files = walk.filter(Files::isRegularFile).collect(Collectors.toList());
        }
        for (Path file : files) {
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                channel.force(true);
            }
        }
    }
}
