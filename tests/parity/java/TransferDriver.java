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
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.AntiAffinityGroupPolicyFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerIsolationPoliciesFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerLoadManagerClassFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerMaxTopicCountFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerVersionFilter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.policies.AntiAffinityGroupPolicyHelper;
import org.apache.pulsar.broker.loadbalance.extensions.policies.IsolationPoliciesHelper;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * Runs Pulsar's own TransferShedder (and the extensible manager's placement strategy) on fleets that Trimtab's
 * tests made, and tells what they decide.
 *
 * <p>Usage: TransferDriver CASES. CASES holds one JSON object a line:
 * {"conf", "brokers": {id: lookup data}, "loads": {id: load}, "tops": {id: [{bundleName, stats}]},
 * "owners": {bundle: id}, "recent_bundles": [...], "gave_at": {id: ms}, "rounds": n, "draws": n, and perhaps
 * "policies": {isolation, groups, domains} with "chain": [bundles whose candidates are asked for]}; one JSON line
 * {"rounds": [{"moves": [[broker, bundle, destination or ""], ...], "reasons": {label:reason: count}}], "std",
 * "gave_at": [...], "picked": [...], "chain": {bundle: [ids]}} is printed for each.
 */
public class TransferDriver {
    private static final ObjectMapper JSON = ObjectMapperFactory.getMapper().getObjectMapper();
    private static int stores;

    /** A broker service that never starts: it only hands out what a filter asks for. */
    static class IdleBroker extends PulsarService {
        private ServiceConfiguration settings;
        private MetadataStoreExtended store;
        private NamespaceService namespaces;
        private PulsarResources resources;

        IdleBroker(ServiceConfiguration settings) {
            super(settings);
        }

        IdleBroker use(ServiceConfiguration settings, MetadataStoreExtended store) throws Exception {
            this.settings = settings;
            this.store = store;
            this.resources = new PulsarResources(store, store);
            this.namespaces = (NamespaceService) unsafe().allocateInstance(Namespaces.class);
            ((Namespaces) namespaces).factory = new NamespaceBundleFactory(this, Hashing.crc32());
            return this;
        }

        @Override
        public ServiceConfiguration getConfiguration() {
            return settings == null ? super.getConfiguration() : settings;
        }

        @Override
        public NamespaceService getNamespaceService() {
            return namespaces;
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

    /** Only makes bundles of names. */
    static class Namespaces extends NamespaceService {
        NamespaceBundleFactory factory;

        Namespaces(PulsarService broker) {
            super(broker);
        }

        @Override
        public NamespaceBundleFactory getNamespaceBundleFactory() {
            return factory;
        }
    }

    private static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
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
        MetadataStoreExtended store = MetadataStoreExtended.create("memory:transfer", MetadataStoreConfig.builder().build());
        IdleBroker broker = new IdleBroker(settings(JSON.createObjectNode())).use(null, store);
        IdleBroker policed = new IdleBroker(settings(JSON.createObjectNode()));
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(JSON.writeValueAsString(answers(broker, policed, JSON.readTree(line))));
            }
        }
        out.flush();
    }

    private static JsonNode answers(IdleBroker plain, IdleBroker policed, JsonNode fleet) throws Exception {
        ServiceConfiguration settings = settings(fleet.get("conf"));
        IdleBroker broker = fleet.has("policies") ? policed(policed, settings, fleet.get("policies")) : plain;
        Map<String, BrokerLookupData> registered = new TreeMap<>();
        fleet.get("brokers").properties().forEach(entry -> registered.put(entry.getKey(), read(entry.getValue(), BrokerLookupData.class)));
        Map<String, BrokerLoadData> loads = new ConcurrentHashMap<>();
        new TreeMap<>(byName(fleet.get("loads"))).forEach((name, load) -> loads.put(name, read(load, BrokerLoadData.class)));
        Map<String, TopBundlesLoadData> tops = new HashMap<>();
        byName(fleet.get("tops")).forEach((name, top) -> {
            ObjectNode whole = JSON.createObjectNode();
            whole.set("topBundlesLoadData", top);
            tops.put(name, read(whole, TopBundlesLoadData.class));
        });
        LoadManagerContext context = context(settings, registered, store(loads), store(tops));
        ObjectNode answer = JSON.createObjectNode();
        ServiceUnitStateChannel channel = channel(fleet.get("owners"));
        shed(broker, channel, fleet, context, answer);
        pick(fleet, context, answer);
        if (fleet.has("policies")) {
            chain(broker, channel, fleet, context, answer);
        }
        return answer;
    }

    /** The broker with a metadata store of its own, which holds the policies. */
    private static IdleBroker policed(IdleBroker broker, ServiceConfiguration settings, JsonNode policies) throws Exception {
        MetadataStoreExtended store = MetadataStoreExtended.create("memory:transfer-" + stores++, MetadataStoreConfig.builder().build());
        store(store, "/admin/clusters/parity/namespaceIsolationPolicies", policies.get("isolation"));
        for (Map.Entry<String, JsonNode> group : policies.get("groups").properties()) {
            ObjectNode local = JSON.createObjectNode();
            local.set("namespaceAntiAffinityGroup", group.getValue());
            store(store, "/admin/local-policies/" + group.getKey(), local);
        }
        for (Map.Entry<String, JsonNode> domain : policies.get("domains").properties()) {
            ObjectNode members = JSON.createObjectNode();
            members.set("brokers", domain.getValue());
            store(store, "/admin/clusters/parity/failureDomain/" + domain.getKey(), members);
        }
        broker.use(settings, store);
        // read once: a read from within another's callback waits for itself, half a minute long
        PulsarResources resources = broker.getPulsarResources();
        resources.getNamespaceResources().getIsolationPolicies().getIsolationDataPolicies("parity");
        for (int number = 0; number < 9; number++) {
            resources.getLocalPolicies().getLocalPolicies(NamespaceName.get("acme/n" + number));
        }
        return broker;
    }

    private static void store(MetadataStoreExtended store, String path, JsonNode value) throws Exception {
        store.put(path, JSON.writeValueAsBytes(value), Optional.empty()).get();
    }

    private static ServiceUnitStateChannel channel(JsonNode owners) {
        Set<Map.Entry<String, ServiceUnitStateData>> entries = new HashSet<>();
        byName(owners).forEach((bundle, owner) -> entries.add(new AbstractMap.SimpleEntry<>(bundle,
                new ServiceUnitStateData(ServiceUnitState.Owned, owner.asText(), 1))));
        return (ServiceUnitStateChannel) Proxy.newProxyInstance(TransferDriver.class.getClassLoader(),
                new Class<?>[] {ServiceUnitStateChannel.class}, (proxy, method, given) -> switch (method.getName()) {
                    case "isOwner" -> owners.path((String) given[0]).asText().equals(given[1]);
                    case "getOwnershipEntrySet" -> entries;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private static AntiAffinityGroupPolicyHelper groups(IdleBroker broker, ServiceUnitStateChannel channel) {
        AntiAffinityGroupPolicyHelper helper = new AntiAffinityGroupPolicyHelper(broker, channel);
        helper.listenFailureDomainUpdate();
        return helper;
    }

    private static List<BrokerFilter> pipeline(IdleBroker broker, ServiceUnitStateChannel channel) {
        return List.of(new BrokerLoadManagerClassFilter(), new BrokerMaxTopicCountFilter(), new BrokerVersionFilter(),
                new AntiAffinityGroupPolicyFilter(groups(broker, channel)),
                new BrokerIsolationPoliciesFilter(new IsolationPoliciesHelper(new SimpleResourceAllocationPolicies(broker))));
    }

    /** Whom the manager's own filters leave for a bundle, one after the other. */
    private static void chain(IdleBroker broker, ServiceUnitStateChannel channel, JsonNode fleet, LoadManagerContext context,
                              ObjectNode answer) throws Exception {
        ObjectNode left = answer.putObject("chain");
        List<BrokerFilter> filters = pipeline(broker, channel);
        for (JsonNode asked : fleet.get("chain")) {
            String bundle = asked.asText();
            int cut = bundle.lastIndexOf('/');
            Map<String, BrokerLookupData> brokers = new ConcurrentHashMap<>(context.brokerRegistry().getAvailableBrokerLookupDataAsync().get());
            for (BrokerFilter filter : filters) {
                try {
                    filter.filterAsync(brokers, broker.getNamespaceService().getNamespaceBundleFactory()
                            .getBundle(bundle.substring(0, cut), bundle.substring(cut + 1)), context).get();
                } catch (Exception refused) {
                    continue; // the manager logs it and goes on
                }
            }
            left.set(bundle, JSON.valueToTree(new TreeMap<>(brokers).keySet()));
        }
    }

    private static void shed(IdleBroker broker, ServiceUnitStateChannel channel, JsonNode fleet, LoadManagerContext context,
                             ObjectNode answer) throws Exception {
        UnloadCounter counter = new UnloadCounter();
        TransferShedder shedder = new TransferShedder(counter);
        put(shedder, "pulsar", broker);
        put(shedder, "channel", channel);
        put(shedder, "brokerFilterPipeline", pipeline(broker, channel));
        put(shedder, "isolationPoliciesHelper", new IsolationPoliciesHelper(new SimpleResourceAllocationPolicies(broker)));
        put(shedder, "antiAffinityGroupPolicyHelper", groups(broker, channel));
        Map<String, Long> recent = new HashMap<>();
        fleet.get("recent_bundles").forEach(name -> recent.put(name.asText(), System.currentTimeMillis()));
        Map<String, Long> gave = new HashMap<>();
        byName(fleet.get("gave_at")).forEach((name, at) -> gave.put(name, at.asLong()));
        ArrayNode rounds = answer.putArray("rounds");
        for (int round = 0; round < fleet.get("rounds").asInt(); round++) {
            Set<UnloadDecision> found = shedder.findBundlesForUnloading(context, recent, gave);
            ObjectNode told = rounds.addObject();
            ArrayNode moves = told.putArray("moves");
            for (UnloadDecision decision : found) {
                moves.addArray().add(decision.getUnload().sourceBroker()).add(decision.getUnload().serviceUnit())
                        .add(decision.getUnload().destBroker().orElse("")).add(decision.getReason().toString());
            }
            ObjectNode reasons = told.putObject("reasons");
            counter.getBreakdownCounters().forEach((label, by) -> by.forEach((reason, count) -> {
                if (count.get() > 0) {
                    reasons.put(label + ":" + reason, count.get());
                }
            }));
            Object stats = get(shedder, "stats");
            told.put("std", String.valueOf(get(stats, "std")));
        }
        answer.set("gave_at", JSON.valueToTree(new TreeMap<>(gave).keySet()));
    }

    /** Whom the placement strategy draws, many times, among all registered brokers. */
    private static void pick(JsonNode fleet, LoadManagerContext context, ObjectNode answer) throws Exception {
        LeastResourceUsageWithWeight strategy = new LeastResourceUsageWithWeight();
        Map<String, BrokerLookupData> all = new ConcurrentHashMap<>(context.brokerRegistry().getAvailableBrokerLookupDataAsync().get());
        Set<String> picked = new HashSet<>();
        for (int draw = 0; draw < fleet.get("draws").asInt(); draw++) {
            strategy.select(all.keySet(), null, context).ifPresent(picked::add);
        }
        answer.set("picked", JSON.valueToTree(picked));
    }

    private static LoadManagerContext context(ServiceConfiguration settings, Map<String, BrokerLookupData> registered,
                                              LoadDataStore<BrokerLoadData> loads, LoadDataStore<TopBundlesLoadData> tops) {
        BrokerRegistry registry = (BrokerRegistry) Proxy.newProxyInstance(TransferDriver.class.getClassLoader(),
                new Class<?>[] {BrokerRegistry.class}, (proxy, method, given) -> {
                    if (method.getName().equals("getAvailableBrokerLookupDataAsync")) {
                        return CompletableFuture.completedFuture(registered);
                    }
                    throw new UnsupportedOperationException(method.getName());
                });
        return new LoadManagerContext() {
            @Override
            public ServiceConfiguration brokerConfiguration() {
                return settings;
            }

            @Override
            public LoadDataStore<BrokerLoadData> brokerLoadDataStore() {
                return loads;
            }

            @Override
            public LoadDataStore<TopBundlesLoadData> topBundleLoadDataStore() {
                return tops;
            }

            @Override
            public BrokerRegistry brokerRegistry() {
                return registry;
            }
        };
    }

    @SuppressWarnings("unchecked")
    private static <T> LoadDataStore<T> store(Map<String, T> held) {
        return (LoadDataStore<T>) Proxy.newProxyInstance(TransferDriver.class.getClassLoader(),
                new Class<?>[] {LoadDataStore.class}, (proxy, method, given) -> switch (method.getName()) {
                    case "get" -> Optional.ofNullable(held.get((String) given[0]));
                    case "entrySet" -> held.entrySet();
                    case "size" -> held.size();
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private static Map<String, JsonNode> byName(JsonNode node) {
        Map<String, JsonNode> found = new HashMap<>();
        node.properties().forEach(entry -> found.put(entry.getKey(), entry.getValue()));
        return found;
    }

    private static <T> T read(JsonNode node, Class<T> kind) {
        try {
            return JSON.treeToValue(node, kind);
        } catch (Exception error) {
            throw new IllegalArgumentException(node.toString(), error);
        }
    }

    private static ServiceConfiguration settings(JsonNode values) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("clusterName", "parity");
        properties.setProperty("metadataStoreUrl", "memory:local");
        properties.setProperty("loadManagerClassName", "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl");
        values.properties().forEach(entry -> properties.setProperty(entry.getKey(), entry.getValue().asText()));
        return PulsarConfigurationLoader.create(properties, ServiceConfiguration.class);
    }

    private static Object get(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private static void put(Object owner, String name, Object value) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(owner, value);
    }
}
