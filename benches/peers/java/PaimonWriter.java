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
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.types.DataTypes;

/**
 * Writes the rows of a file to a new append table with released Paimon, once per line on standard
 * input, and answers with CPU-seconds of this process and seconds on the wall clock.
 *
 * <p>Arguments: ROWS-FILE. A line: {@code FOLDER} or {@code FOLDER dt} (partitioned by dt).
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
            write(Path.of(words[0]), words.length > 1 ? List.of(words[1]) : List.of());
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

    private static void write(Path folder, List<String> partition) throws Exception {
        org.apache.paimon.fs.Path warehouse = new org.apache.paimon.fs.Path(folder.toUri());
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(warehouse))) {
            catalog.createDatabase("db", true);
            Identifier name = Identifier.create("db", "t");
            Schema schema =
                    Schema.newBuilder()
                            .column("id", DataTypes.BIGINT())
                            .column("name", DataTypes.STRING())
                            .column("amount", DataTypes.DOUBLE())
                            .column("dt", DataTypes.STRING())
                            .partitionKeys(partition)
                            .option("bucket", "-1")
                            .build();
            catalog.createTable(name, schema, false);
            Table table = catalog.getTable(name);
            BatchWriteBuilder builder = table.newBatchWriteBuilder();
            try (IOManager io = IOManager.create(folder.resolve("spill").toString());
                    BatchTableWrite write = builder.newWrite();
                    BatchTableCommit commit = builder.newCommit()) {
                write.withIOManager(io);
                for (int i = 0; i < ids.length; i++) {
                    write.write(GenericRow.of(ids[i], names[i], amounts[i], dts[i]));
                }
                commit.commit(write.prepareCommit());
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
