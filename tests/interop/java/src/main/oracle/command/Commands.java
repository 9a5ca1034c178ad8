package oracle.command;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import oracle.check.TableChecker;
import oracle.json.Arguments;
import oracle.json.Json;
import oracle.read.ReadCommands;
import oracle.write.WriteCommands;
import org.apache.paimon.table.FileStoreTable;

/** All commands by name. */
public final class Commands {

    private static final Map<String, Command> COMMANDS = new LinkedHashMap<>();

    static {
        COMMANDS.put("version", Commands::version);
        COMMANDS.put("create", SchemaCommands::create);
        COMMANDS.put("alter", SchemaCommands::alter);
        COMMANDS.put("write", WriteCommands::write);
        COMMANDS.put("commit", WriteCommands::commit);
        COMMANDS.put("decode", WriteCommands::decode);
        COMMANDS.put("deleteRows", WriteCommands::deleteRows);
        COMMANDS.put("truncate", WriteCommands::truncate);
        COMMANDS.put("dropPartitions", WriteCommands::dropPartitions);
        COMMANDS.put("compact", WriteCommands::compact);
        COMMANDS.put("analyze", ManageCommands::analyze);
        COMMANDS.put("read", ReadCommands::read);
        COMMANDS.put("changelog", ReadCommands::changelog);
        COMMANDS.put("system", ReadCommands::system);
        COMMANDS.put("check", TableChecker::check);
        COMMANDS.put("orphans", ManageCommands::orphans);
        COMMANDS.put("expire", ManageCommands::expire);
        COMMANDS.put("rollback", ManageCommands::rollback);
        COMMANDS.put("tag", ManageCommands::tag);
        COMMANDS.put("untag", ManageCommands::untag);
        COMMANDS.put("branch", ManageCommands::branch);
        COMMANDS.put("hash", HashCommand::hash);
    }

    private Commands() {}

    public static Set<String> names() {
        return COMMANDS.keySet();
    }

    public static Command get(String name) {
        Command command = COMMANDS.get(name);
        if (command == null) {
            throw new IllegalArgumentException("Unknown command: " + name);
        }
        return command;
    }

    private static JsonNode version(Arguments arguments) {
        ObjectNode node = Json.object();
        node.put("paimon", paimonVersion());
        node.put("java", System.getProperty("java.version"));
        return node;
    }

    /** The release as the bundle's jar is named after it: {@code paimon-bundle-VERSION.jar}. */
    public static String paimonVersion() {
        String jar =
                FileStoreTable.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceFirst(".*paimon-bundle-", "").replaceFirst("\\.jar$", "");
    }
}
