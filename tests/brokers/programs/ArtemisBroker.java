// Artemis in a process of its own: PORT FOLDER RECEIVE_MAXIMUM PACKET_BYTES_MAX DENIED PERSISTENT.

import java.util.Set;
import javax.security.auth.Subject;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.security.CheckType;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.spi.core.protocol.RemotingConnection;
import org.apache.activemq.artemis.spi.core.security.ActiveMQSecurityManager5;
import org.apache.activemq.artemis.spi.core.security.jaas.UserPrincipal;

public class ArtemisBroker {
    /** Lets everybody in, and refuses what is below one topic; its topics have dots for slashes. */
    static class Rules implements ActiveMQSecurityManager5 {
        private final String denied;

        Rules(String denied) {
            this.denied = denied + ".";
        }

        @Override
        public Subject authenticate(String user, String password, RemotingConnection from, String domain) {
            Subject subject = new Subject();
            subject.getPrincipals().add(new UserPrincipal("anybody"));
            return subject;
        }

        @Override
        public boolean authorize(Subject subject, Set<Role> roles, CheckType check, String address) {
            return !address.startsWith(denied);
        }

        @Override
        public boolean validateUser(String user, String password) {
            return true;
        }

        @Override
        public boolean validateUserAndRole(String user, String password, Set<Role> roles, CheckType check) {
            return true;
        }
    }

    public static void main(String[] given) throws Exception {
        Configuration options = new ConfigurationImpl();
        options.setPersistenceEnabled(given[5].equals("true"));
        options.setJournalDirectory(given[1] + "/journal");
        options.setBindingsDirectory(given[1] + "/bindings");
        options.setLargeMessagesDirectory(given[1] + "/large");
        options.setPagingDirectory(given[1] + "/paging");
        options.setMaxDiskUsage(-1);
        options.setSecurityEnabled(true);
        options.addAcceptorConfiguration("mqtt", "tcp://127.0.0.1:" + given[0]
            + "?protocols=MQTT;receiveMaximum=" + given[2] + ";maximumPacketSize=" + given[3]);
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(options);
        broker.setSecurityManager(new Rules(given[4]));
        broker.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                broker.stop();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }));
    }
}
