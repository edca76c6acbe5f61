import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.coordination.CoordinationService;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.apache.pulsar.metadata.coordination.impl.CoordinationServiceImpl;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.TimeAverageBrokerData;

/**
 * Runs a shedding round of Pulsar's own load manager on fleets that Trimtab's tests made, and tells
 * which unloads it asks for.
 *
 * <p>Usage: UnloadDriver CASES, one JSON object a line; the answer to each is {"draws": [[[bundle,
 * destination], ...], ...]}, every draw a round of a leader that just started. Nothing is connected
 * to: the metadata store is Pulsar's own in-memory one, and the admin client only writes down.
 */
public class UnloadDriver {
    private static final String CLUSTER = "parity";
    private static final ObjectMapper JSON = ObjectMapperFactory.getMapper().getObjectMapper();

    /** A broker service that never starts: it only hands out what a load manager asks for. */
    static class IdleBroker extends PulsarService {
        private final List<String[]> unloads = new ArrayList<>();
        private ServiceConfiguration settings;
        private MetadataStoreExtended store;
        private PulsarResources resources;
        private CoordinationService coordination;
        private NamespaceService namespaces;

        IdleBroker(ServiceConfiguration settings) {
            super(settings);
        }

        void use(ServiceConfiguration settings, MetadataStoreExtended store) {
            this.settings = settings;
            this.store = store;
            this.resources = new PulsarResources(store, store);
            this.coordination = new CoordinationServiceImpl(store);
            this.namespaces = new NamespaceService(this);
        }

        @Override
        public ServiceConfiguration getConfiguration() {
            return settings == null ? super.getConfiguration() : settings;
        }

        @Override
        public PulsarResources getPulsarResources() {
            return resources;
        }

        @Override
        public CoordinationService getCoordinationService() {
            return coordination;
        }

        @Override
        public MetadataStoreExtended getLocalMetadataStore() {
            return store;
        }

        @Override
        public NamespaceService getNamespaceService() {
            return namespaces;
        }

        @Override
        public PulsarAdmin getAdminClient() {
            Namespaces listed = (Namespaces) Proxy.newProxyInstance(Namespaces.class.getClassLoader(),
                    new Class<?>[] {Namespaces.class}, (proxy, method, arguments) -> {
                        if (!method.getName().equals("unloadNamespaceBundle") || arguments.length != 3) {
                            throw new UnsupportedOperationException(method.toString());
                        }
                        unloads.add(new String[] {arguments[0] + "/" + arguments[1], (String) arguments[2]});
                        return null;
                    });
            return (PulsarAdmin) Proxy.newProxyInstance(PulsarAdmin.class.getClassLoader(),
                    new Class<?>[] {PulsarAdmin.class}, (proxy, method, arguments) -> {
                        if (!method.getName().equals("namespaces")) {
                            throw new UnsupportedOperationException(method.toString());
                        }
                        return listed;
                    });
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints stays out of the answers
        IdleBroker broker = new IdleBroker(settings(JSON.createObjectNode()));
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(JSON.writeValueAsString(draws(broker, JSON.readTree(line))));
            }
        }
        out.flush();
        Runtime.getRuntime().halt(0); // broker threads would linger
    }

    private static JsonNode draws(IdleBroker broker, JsonNode fleet) throws Exception {
        MetadataStoreExtended store =
                MetadataStoreExtended.create("memory:local", MetadataStoreConfig.builder().build());
        publish(store, fleet);
        broker.use(settings(fleet.get("conf")), store);
        ModularLoadManagerImpl manager = new ModularLoadManagerImpl();
        manager.initialize(broker);
        // what it would read from its store later on would take the place of what it is given here
        ExecutorService readers = (ExecutorService) field(manager, "executors");
        readers.shutdownNow();
        readers.awaitTermination(60, TimeUnit.SECONDS);
        LoadData load = (LoadData) field(manager, "loadData");
        fill(load, (BundleRangeCache) field(manager, "brokerToNamespaceToBundleRange"), fleet);
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode draws = answer.putArray("draws");
        for (int draw = 0; draw < fleet.get("draws").asInt(); draw++) {
            broker.unloads.clear();
            load.getRecentlyUnloadedBundles().clear();
            manager.doLoadShedding();
            ArrayNode told = draws.addArray();
            broker.unloads.forEach(unload -> told.addArray().add(unload[0]).add(unload[1]));
        }
        manager.stop();
        store.close();
        return answer;
    }

    private static void fill(LoadData load, BundleRangeCache ranges, JsonNode fleet) throws Exception {
        Iterator<Map.Entry<String, JsonNode>> brokers = fleet.get("brokers").fields();
        while (brokers.hasNext()) {
            Map.Entry<String, JsonNode> broker = brokers.next();
            JsonNode facts = broker.getValue();
            BrokerData held = new BrokerData(JSON.treeToValue(facts.get("report"), LocalBrokerData.class));
            held.setTimeAverageData(JSON.treeToValue(facts.get("average"), TimeAverageBrokerData.class));
            load.getBrokerData().put(broker.getKey(), held);
            List<String> names = new ArrayList<>();
            facts.get("bundles").forEach(name -> names.add(name.asText()));
            ranges.reloadFromBundles(broker.getKey(), names.stream());
        }
        Iterator<Map.Entry<String, JsonNode>> bundles = fleet.get("throughput").fields();
        while (bundles.hasNext()) {
            Map.Entry<String, JsonNode> bundle = bundles.next();
            BundleData data = new BundleData(10, 1000);
            data.getShortTermData().setMsgThroughputIn(bundle.getValue().asDouble());
            load.getBundleData().put(bundle.getKey(), data);
        }
    }

    private static ServiceConfiguration settings(JsonNode values) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("clusterName", CLUSTER);
        properties.setProperty("metadataStoreUrl", "memory:local");
        properties.setProperty("advertisedAddress", "127.0.0.1");
        Iterator<Map.Entry<String, JsonNode>> fields = values.fields();
        while (fields.hasNext()) {
            Map.Entry<String, JsonNode> field = fields.next();
            properties.setProperty(field.getKey(), field.getValue().asText());
        }
        return PulsarConfigurationLoader.create(properties, ServiceConfiguration.class);
    }

    private static void publish(MetadataStoreExtended store, JsonNode fleet) throws Exception {
        Iterator<Map.Entry<String, JsonNode>> brokers = fleet.get("brokers").fields();
        while (brokers.hasNext()) {
            Map.Entry<String, JsonNode> broker = brokers.next();
            put(store, "/loadbalance/brokers/" + broker.getKey(), broker.getValue().get("report"));
        }
        if (fleet.get("isolation").size() > 0) {
            put(store, "/admin/clusters/" + CLUSTER + "/namespaceIsolationPolicies", fleet.get("isolation"));
        }
        Iterator<Map.Entry<String, JsonNode>> groups = fleet.get("groups").fields();
        while (groups.hasNext()) {
            Map.Entry<String, JsonNode> group = groups.next();
            ObjectNode local = JSON.createObjectNode();
            local.set("namespaceAntiAffinityGroup", group.getValue());
            put(store, "/admin/local-policies/" + group.getKey(), local);
        }
        Iterator<Map.Entry<String, JsonNode>> domains = fleet.get("domains").fields();
        while (domains.hasNext()) {
            Map.Entry<String, JsonNode> domain = domains.next();
            ObjectNode members = JSON.createObjectNode();
            members.set("brokers", domain.getValue());
            put(store, "/admin/clusters/" + CLUSTER + "/failureDomain/" + domain.getKey(), members);
        }
    }

    private static void put(MetadataStoreExtended store, String path, JsonNode value) throws Exception {
        store.put(path, JSON.writeValueAsBytes(value), Optional.empty()).get();
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
