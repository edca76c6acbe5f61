import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadManager;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerWrapper;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitDecision;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.DefaultNamespaceBundleSplitStrategyImpl;
import org.apache.pulsar.broker.loadbalance.impl.BundleSplitterTask;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceBundleSplitAlgorithm;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/**
 * Runs Pulsar's own split algorithms and both managers' split checks on what Trimtab's tests made.
 *
 * <p>Usage: SplitDriver CASES. CASES holds one JSON object a line, with "conf" and one of
 * "where": {"namespace", "lower", "upper", "topics": [[name, rate, throughput], ...], "algorithm", "positions"},
 * "modular": {"stats": {broker: {bundle: stats}}, "averages": {bundle: BundleData}, "counts": {namespace: n}},
 * "extensible": {"rounds": [{bundle: stats}, ...], "owned": [...], "busy": [...], "counts": {namespace: n}}.
 */
public class SplitDriver {
    private static final ObjectMapper JSON = ObjectMapperFactory.getMapper().getObjectMapper();

    /** A broker service that never starts: it only hands out what the classes under test ask for. */
    static class IdleBroker extends PulsarService {
        private final MetadataStoreExtended store;
        private final PulsarResources resources;
        private final Namespaces namespaces;
        private final Topics topics;
        private final AtomicReference<LoadManager> manager = new AtomicReference<>();
        private ServiceConfiguration settings;

        IdleBroker(ServiceConfiguration settings, MetadataStoreExtended store) throws Exception {
            super(settings);
            this.store = store;
            this.resources = new PulsarResources(store, store);
            this.namespaces = (Namespaces) unsafe().allocateInstance(Namespaces.class);
            this.topics = (Topics) unsafe().allocateInstance(Topics.class);
            put(NamespaceService.class, namespaces, "pulsar", this);
            put(NamespaceService.class, namespaces, "config", settings);
            namespaces.factory = new NamespaceBundleFactory(this, Hashing.crc32());
        }

        void use(ServiceConfiguration settings, ServiceUnitStateChannel channel) throws Exception {
            this.settings = settings;
            put(NamespaceService.class, namespaces, "config", settings);
            Object own = unsafe().allocateInstance(ExtensibleLoadManagerImpl.class);
            put(ExtensibleLoadManagerImpl.class, own, "serviceUnitStateChannel", channel);
            manager.set(new ExtensibleLoadManagerWrapper((ExtensibleLoadManagerImpl) own));
        }

        @Override
        public ServiceConfiguration getConfiguration() {
            return settings == null ? super.getConfiguration() : settings;
        }

        @Override
        public ServiceConfiguration getConfig() {
            return getConfiguration();
        }

        @Override
        public NamespaceService getNamespaceService() {
            return namespaces;
        }

        @Override
        public BrokerService getBrokerService() {
            return topics;
        }

        @Override
        public AtomicReference<LoadManager> getLoadManager() {
            return manager;
        }

        @Override
        public PulsarResources getPulsarResources() {
            return resources;
        }

        @Override
        public MetadataStoreExtended getLocalMetadataStore() {
            return store;
        }
    }

    /** Topics of the bundle in question, and counts of bundles. */
    static class Namespaces extends NamespaceService {
        NamespaceBundleFactory factory;
        List<String> owned;
        JsonNode counts;

        Namespaces(PulsarService broker) {
            super(broker);
        }

        @Override
        public NamespaceBundleFactory getNamespaceBundleFactory() {
            return factory;
        }

        @Override
        public CompletableFuture<List<String>> getOwnedTopicListForNamespaceBundle(NamespaceBundle bundle) {
            return CompletableFuture.completedFuture(owned);
        }

        @Override
        public int getBundleCount(NamespaceName namespace) {
            return counts.path(namespace.toString()).asInt();
        }
    }

    /** Statistics of bundles and topics. */
    static class Topics extends BrokerService {
        Map<String, NamespaceBundleStats> bundles;
        Map<String, TopicStatsImpl> topics;

        Topics() throws Exception {
            super(null, null);
        }

        @Override
        public Map<String, NamespaceBundleStats> getBundleStats() {
            return bundles;
        }

        @Override
        public Map<String, TopicStatsImpl> getTopicStats(NamespaceBundle bundle) {
            return topics;
        }
    }

    public static void main(String[] arguments) {
        try {
            answerAll(arguments);
            Runtime.getRuntime().halt(0); // broker threads would linger
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void answerAll(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints stays out of the answers
        MetadataStoreExtended store = MetadataStoreExtended.create("memory:split", MetadataStoreConfig.builder().build());
        IdleBroker broker = new IdleBroker(settings(JSON.createObjectNode()), store);
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode given = JSON.readTree(line);
                ServiceConfiguration settings = settings(given.get("conf"));
                ObjectNode answer = JSON.createObjectNode();
                if (given.has("where")) {
                    where(broker, settings, given.get("where"), answer);
                } else if (given.has("modular")) {
                    modular(broker, settings, given.get("modular"), answer);
                } else {
                    extensible(broker, settings, given.get("extensible"), answer);
                }
                out.println(JSON.writeValueAsString(answer));
            }
        }
        out.flush();
    }

    /** Where an algorithm cuts, and whether the factory takes that. */
    private static void where(IdleBroker broker, ServiceConfiguration settings, JsonNode given, ObjectNode answer) throws Exception {
        broker.use(settings, null);
        NamespaceName namespace = NamespaceName.get(given.get("namespace").asText());
        long lower = given.get("lower").asLong();
        long upper = given.get("upper").asLong();
        boundaries(broker, namespace, lower, upper);
        NamespaceBundleFactory factory = broker.namespaces.factory;
        NamespaceBundle bundle = factory.getBundle(namespace, NamespaceBundleFactory.getRange(lower, upper));
        broker.namespaces.owned = new ArrayList<>();
        broker.topics.topics = new HashMap<>();
        for (JsonNode topic : given.get("topics")) {
            TopicStatsImpl stats = new TopicStatsImpl();
            stats.msgRateIn = topic.get(1).asDouble();
            stats.msgThroughputIn = topic.get(2).asDouble();
            broker.namespaces.owned.add(topic.get(0).asText());
            broker.topics.topics.put(topic.get(0).asText(), stats);
        }
        List<Long> positions = null;
        if (given.get("positions").size() > 0) {
            positions = new ArrayList<>();
            for (JsonNode position : given.get("positions")) {
                positions.add(position.asLong());
            }
        }
        List<Long> found;
        try {
            NamespaceBundleSplitAlgorithm algorithm = broker.namespaces.getNamespaceBundleSplitAlgorithmByName(given.get("algorithm").asText());
            found = broker.namespaces.getSplitBoundary(bundle, positions, algorithm).get();
            answer.set("positions", JSON.valueToTree(found));
        } catch (Throwable error) {
            answer.put("error", error.getClass().getSimpleName());
            return;
        }
        if (found == null || found.isEmpty()) {
            return;
        }
        try {
            ArrayNode parts = answer.putArray("parts");
            factory.splitBundles(bundle, 2, new ArrayList<>(found)).get().getRight().forEach(part -> parts.add(part.getBundleRange()));
        } catch (Throwable error) {
            answer.put("refused", error.getClass().getSimpleName());
        }
    }

    private static void boundaries(IdleBroker broker, NamespaceName namespace, long lower, long upper) throws Exception {
        Set<Long> bounds = new java.util.TreeSet<>(List.of(0L, lower, upper, 0xffffffffL));
        ObjectNode policies = JSON.createObjectNode();
        ArrayNode texts = policies.putObject("bundles").putArray("boundaries");
        bounds.forEach(bound -> texts.add(String.format("0x%08x", bound)));
        ((ObjectNode) policies.get("bundles")).put("numBundles", bounds.size() - 1);
        broker.store.put("/admin/local-policies/" + namespace, JSON.writeValueAsBytes(policies), Optional.empty()).get();
    }

    private static void modular(IdleBroker broker, ServiceConfiguration settings, JsonNode given, ObjectNode answer) throws Exception {
        broker.use(settings, null);
        broker.namespaces.counts = given.get("counts");
        LoadData load = new LoadData();
        for (Map.Entry<String, JsonNode> entry : given.get("stats").properties()) {
            LocalBrokerData local = new LocalBrokerData();
            local.setLastStats(stats(entry.getValue()));
            load.getBrokerData().put(entry.getKey(), new BrokerData(local));
        }
        for (Map.Entry<String, JsonNode> entry : given.get("averages").properties()) {
            load.getBundleData().put(entry.getKey(), JSON.treeToValue(entry.getValue(), BundleData.class));
        }
        answer.set("chosen", JSON.valueToTree(new TreeMap<>(new BundleSplitterTask().findBundlesToSplit(load, broker))));
    }

    private static void extensible(IdleBroker broker, ServiceConfiguration settings, JsonNode given, ObjectNode answer) throws Exception {
        Set<String> owned = new HashSet<>();
        given.get("owned").forEach(name -> owned.add(name.asText()));
        Set<Map.Entry<String, ServiceUnitStateData>> entries = new HashSet<>();
        given.get("busy").forEach(name -> entries.add(new AbstractMap.SimpleEntry<>(name.asText(),
                new ServiceUnitStateData(ServiceUnitState.Splitting, null, "me:1", Map.of("a", Optional.empty(), "b", Optional.empty()), 1))));
        ServiceUnitStateChannel channel = (ServiceUnitStateChannel) Proxy.newProxyInstance(SplitDriver.class.getClassLoader(),
                new Class<?>[] {ServiceUnitStateChannel.class}, (proxy, method, with) -> switch (method.getName()) {
                    case "isOwner" -> owned.contains(with[0]);
                    case "getOwnershipEntrySet" -> entries;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
        broker.use(settings, channel);
        broker.namespaces.counts = given.get("counts");
        BrokerRegistry registry = (BrokerRegistry) Proxy.newProxyInstance(SplitDriver.class.getClassLoader(),
                new Class<?>[] {BrokerRegistry.class}, (proxy, method, with) -> "me:1");
        LoadManagerContext context = (LoadManagerContext) Proxy.newProxyInstance(SplitDriver.class.getClassLoader(),
                new Class<?>[] {LoadManagerContext.class}, (proxy, method, with) ->
                        method.getName().equals("brokerRegistry") ? registry : settings);
        DefaultNamespaceBundleSplitStrategyImpl strategy = new DefaultNamespaceBundleSplitStrategyImpl(new SplitCounter());
        ArrayNode rounds = answer.putArray("rounds");
        for (JsonNode round : given.get("rounds")) {
            broker.topics.bundles = stats(round);
            Map<String, String> chosen = new TreeMap<>();
            for (SplitDecision decision : strategy.findBundlesToSplit(context, broker)) {
                chosen.put(decision.getSplit().serviceUnit(), decision.getReason().toString());
            }
            rounds.add(JSON.valueToTree(chosen));
        }
    }

    private static Map<String, NamespaceBundleStats> stats(JsonNode given) throws Exception {
        Map<String, NamespaceBundleStats> found = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> entry : given.properties()) {
            found.put(entry.getKey(), JSON.treeToValue(entry.getValue(), NamespaceBundleStats.class));
        }
        return found;
    }

    private static ServiceConfiguration settings(JsonNode values) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("clusterName", "parity");
        properties.setProperty("metadataStoreUrl", "memory:local");
        values.properties().forEach(entry -> properties.setProperty(entry.getKey(), entry.getValue().asText()));
        return PulsarConfigurationLoader.create(properties, ServiceConfiguration.class);
    }

    private static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
    }

    private static void put(Class<?> kind, Object owner, String name, Object value) throws Exception {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        field.set(owner, value);
    }
}
