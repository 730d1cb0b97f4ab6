// HiveMQ CE in a process of its own: FOLDER DENIED. Its other settings are in FOLDER/conf/config.xml.

import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.PublishAuthorizer;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.auth.SubscriptionAuthorizer;
import com.hivemq.extension.sdk.api.auth.parameter.PublishAuthorizerInput;
import com.hivemq.extension.sdk.api.auth.parameter.PublishAuthorizerOutput;
import com.hivemq.extension.sdk.api.auth.parameter.SubscriptionAuthorizerInput;
import com.hivemq.extension.sdk.api.auth.parameter.SubscriptionAuthorizerOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import java.nio.file.Path;

public class HivemqBroker {
    /** Lets everybody in, and refuses what is below one topic. */
    static class Rules implements ExtensionMain, PublishAuthorizer, SubscriptionAuthorizer {
        private final String denied;

        Rules(String denied) {
            this.denied = denied + "/";
        }

        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            SimpleAuthenticator all = (from, answer) -> answer.authenticateSuccessfully();
            Services.securityRegistry().setAuthenticatorProvider(each -> all);
            Services.securityRegistry().setAuthorizerProvider(each -> this);
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {}

        @Override
        public void authorizePublish(PublishAuthorizerInput input, PublishAuthorizerOutput output) {
            if (input.getPublishPacket().getTopic().startsWith(denied)) {
                output.failAuthorization();
            } else {
                output.authorizeSuccessfully();
            }
        }

        @Override
        public void authorizeSubscribe(SubscriptionAuthorizerInput input, SubscriptionAuthorizerOutput output) {
            if (input.getSubscription().getTopicFilter().startsWith(denied)) {
                output.failAuthorization();
            } else {
                output.authorizeSuccessfully();
            }
        }
    }

    public static void main(String[] given) {
        Path folder = Path.of(given[0]);
        EmbeddedExtension rules = EmbeddedExtension.builder()
            .withId("rules").withName("rules").withVersion("1").withAuthor("tests").withPriority(0)
            .withStartPriority(1000).withExtensionMain(new Rules(given[1])).build();
        EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
            .withConfigurationFolder(folder.resolve("conf")).withDataFolder(folder.resolve("data"))
            .withExtensionsFolder(folder.resolve("extensions")).withEmbeddedExtension(rules).build();
        broker.start().join();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.stop().join()));
    }
}
