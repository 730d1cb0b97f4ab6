// Moquette in a process of its own: PORT FOLDER PACKET_BYTES_MAX DENIED PERSISTENT.

import io.moquette.broker.Server;
import io.moquette.broker.config.MemoryConfig;
import io.moquette.broker.security.IAuthorizatorPolicy;
import io.moquette.broker.subscriptions.Topic;
import java.util.List;
import java.util.Properties;

public class MoquetteBroker {
    public static void main(String[] given) throws Exception {
        Properties options = new Properties();
        options.setProperty("host", "127.0.0.1");
        options.setProperty("port", given[0]);
        options.setProperty("websocket_port", "disabled");
        options.setProperty("data_path", given[1] + "/");
        options.setProperty("netty.mqtt.message_size", given[2]);
        options.setProperty("persistence_enabled", given[4]);
        options.setProperty("telemetry_enabled", "false");
        options.setProperty("allow_anonymous", "true");
        String denied = given[3] + "/";
        IAuthorizatorPolicy rules = new IAuthorizatorPolicy() {
            @Override
            public boolean canWrite(Topic topic, String user, String client) {
                return !topic.toString().startsWith(denied);
            }

            @Override
            public boolean canRead(Topic topic, String user, String client) {
                return !topic.toString().startsWith(denied);
            }
        };
        Server broker = new Server();
        broker.startServer(new MemoryConfig(options), List.of(), null, null, rules);
        Runtime.getRuntime().addShutdownHook(new Thread(broker::stopServer));
    }
}
