import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.collect.Range;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.ServiceUnitId;
import org.apache.pulsar.common.naming.TopicName;
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
 * Runs Pulsar's own placement classes on fleets that Trimtab's tests made, and tells what they do.
 *
 * <p>Usage: PlacementDriver CASES. CASES holds one JSON object a line; one JSON line is printed for
 * each. Nothing is connected to: the metadata store is Pulsar's own in-memory one.
 */
public class PlacementDriver {
    private static final String CLUSTER = "parity";
    private static final ObjectMapper JSON = ObjectMapperFactory.getMapper().getObjectMapper();

    /** A broker service that never starts: it only hands out what a load manager asks for. */
    static class IdleBroker extends PulsarService {
        private ServiceConfiguration settings;
        private MetadataStoreExtended store;
        private PulsarResources resources;
        private CoordinationService coordination;

        IdleBroker(ServiceConfiguration settings) {
            super(settings);
        }

        void use(ServiceConfiguration settings, MetadataStoreExtended store) {
            this.settings = settings;
            this.store = store;
            this.resources = new PulsarResources(store, store);
            this.coordination = new CoordinationServiceImpl(store);
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
            return NAMES;
        }
    }

    /** What the leader's own broker owns, by name. */
    private static final Set<String> OWNED = new TreeSet<>();
    private static final Owned NAMES = bare(Owned.class);

    /** A namespace service that only tells which bundles its broker owns. */
    static class Owned extends NamespaceService {
        Owned(PulsarService broker) {
            super(broker);
        }

        @Override
        public Set<NamespaceBundle> getOwnedServiceUnits() {
            Set<NamespaceBundle> found = new HashSet<>();
            for (String name : OWNED) {
                Named bundle = bare(Named.class);
                bundle.name = name;
                found.add(bundle);
            }
            return found;
        }
    }

    /** A bundle object that has nothing but a name and the kind of its topics. */
    static class Named extends NamespaceBundle {
        private String name;

        Named(NamespaceName namespace, Range<Long> range, NamespaceBundleFactory factory) {
            super(namespace, range, factory);
        }

        @Override
        public NamespaceName getNamespaceObject() {
            return NamespaceName.get(name.substring(0, name.lastIndexOf('/')));
        }

        @Override
        public int hashCode() {
            return name.hashCode();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Named named && named.name.equals(name);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    /** Make an object without running its constructor: it would start a broker's services. */
    private static <T> T bare(Class<T> kind) {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return kind.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(kind));
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** A bundle by name. */
    record Unit(String name) implements ServiceUnitId {
        @Override
        public NamespaceName getNamespaceObject() {
            return NamespaceName.get(name.substring(0, name.lastIndexOf('/')));
        }

        @Override
        public boolean includes(TopicName topic) {
            return true;
        }

        @Override
        public String toString() {
            return name;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints stays out of the answers
        IdleBroker broker = new IdleBroker(settings(JSON.createObjectNode()));
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode fleet = JSON.readTree(line);
                JsonNode answer = fleet.has("picks") ? memoryAnswers(fleet)
                        : fleet.has("rounds") ? selectorAnswers(fleet) : managerAnswers(broker, fleet);
                out.println(JSON.writeValueAsString(answer));
            }
        }
        out.flush();
        Runtime.getRuntime().halt(0); // broker threads would linger
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

    private static void fill(LoadData load, JsonNode fleet) throws Exception {
        Iterator<Map.Entry<String, JsonNode>> brokers = fleet.get("brokers").fields();
        while (brokers.hasNext()) {
            Map.Entry<String, JsonNode> broker = brokers.next();
            JsonNode facts = broker.getValue();
            BrokerData held = new BrokerData(JSON.treeToValue(facts.get("report"), LocalBrokerData.class));
            held.setTimeAverageData(JSON.treeToValue(facts.get("average"), TimeAverageBrokerData.class));
            if (facts.has("preallocated")) {
                Iterator<Map.Entry<String, JsonNode>> given = facts.get("preallocated").fields();
                while (given.hasNext()) {
                    Map.Entry<String, JsonNode> bundle = given.next();
                    held.getPreallocatedBundleData()
                            .put(bundle.getKey(), JSON.treeToValue(bundle.getValue(), BundleData.class));
                }
            }
            load.getBrokerData().put(broker.getKey(), held);
        }
    }

    /** The whole of the load manager: filters, fallbacks, strategy, retry. */
    private static JsonNode managerAnswers(IdleBroker broker, JsonNode fleet) throws Exception {
        MetadataStoreExtended store = MetadataStoreExtended.create("memory:local", MetadataStoreConfig.builder().build());
        publish(store, fleet);
        broker.use(settings(fleet.get("conf")), store);
        ModularLoadManagerImpl manager = new ModularLoadManagerImpl();
        manager.initialize(broker);
        settle(store, manager);
        LoadData load = (LoadData) field(manager, "loadData");
        ObjectNode answer = JSON.createObjectNode();
        if (fleet.has("leader")) {
            lead(manager, fleet, answer.putObject("given"));
        } else {
            fill(load, fleet);
            BundleRangeCache ranges = (BundleRangeCache) field(manager, "brokerToNamespaceToBundleRange");
            Iterator<Map.Entry<String, JsonNode>> brokers = fleet.get("brokers").fields();
            while (brokers.hasNext()) {
                Map.Entry<String, JsonNode> entry = brokers.next();
                List<String> names = new ArrayList<>();
                entry.getValue().get("bundles").forEach(name -> names.add(name.asText()));
                ranges.reloadFromBundles(entry.getKey(), names.stream());
            }
        }
        Method select = ModularLoadManagerImpl.class.getDeclaredMethod("selectBroker", ServiceUnitId.class);
        select.setAccessible(true);
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode question : fleet.get("questions")) {
            load.getBundleData().put(question.get("bundle").asText(), new BundleData(10, 1000));
            answers.add(question.has("calls") ? timed(manager, select, question) : drawn(manager, select, question));
        }
        manager.stop();
        store.close();
        return answer;
    }

    /** Wait until the load manager has taken in what was published: it would do so in the middle of the answers. */
    private static void settle(MetadataStoreExtended store, ModularLoadManagerImpl manager) throws Exception {
        for (int pass = 0; pass < 2; pass++) {
            String marker = "/settled/" + pass;
            CompletableFuture<Void> seen = new CompletableFuture<>();
            store.registerListener(notification -> {
                if (notification.getPath().equals(marker)) {
                    seen.complete(null);
                }
            });
            store.put(marker, new byte[0], Optional.empty()).get();
            seen.get(30, TimeUnit.SECONDS);
            ((ExecutorService) field(manager, "executors")).submit(() -> { }).get(30, TimeUnit.SECONDS);
        }
    }

    /**
     * A leader's life so far: it reads the reports, places bundles, and reads the reports again, which do not name
     * what it placed.
     */
    private static void lead(ModularLoadManagerImpl manager, JsonNode fleet, ObjectNode given) {
        OWNED.clear();
        fleet.get("held").forEach(name -> OWNED.add(name.asText()));
        manager.updateAll();
        for (JsonNode name : fleet.get("placed")) {
            String broker = manager.selectBrokerForAssignment(new Unit(name.asText())).orElse("");
            given.put(name.asText(), broker);
            if (broker.equals(fleet.get("leader").asText())) {
                OWNED.add(name.asText());
            }
        }
        manager.updateAll();
        manager.updateAll();
    }

    private static ObjectNode drawn(ModularLoadManagerImpl manager, Method select, JsonNode question) throws Exception {
        ServiceUnitId unit = new Unit(question.get("bundle").asText());
        if (question.path("non_persistent").asBoolean()) {
            Named bundle = bare(Named.class);
            bundle.name = question.get("bundle").asText();
            bundle.setHasNonPersistentTopic(true);
            unit = bundle;
        }
        Object strategy = field(manager, "placementStrategy");
        Map<String, Integer> counts = new TreeMap<>();
        for (int draw = 0; draw < question.get("draws").asInt(); draw++) {
            forget(strategy);
            Optional<?> chosen = (Optional<?>) select.invoke(manager, unit);
            counts.merge(chosen.map(Object::toString).orElse(""), 1, Integer::sum);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.set("counts", JSON.valueToTree(counts));
        answer.set("candidates", JSON.valueToTree(new TreeSet<>((Set<?>) field(manager, "brokerCandidateCache"))));
        return answer;
    }

    /** Milliseconds of one call, after as many calls to warm up; a few seconds at most for either. */
    private static ObjectNode timed(ModularLoadManagerImpl manager, Method select, JsonNode question) throws Exception {
        List<Unit> units = new ArrayList<>();
        question.get("bundles").forEach(name -> units.add(new Unit(name.asText())));
        LoadData load = (LoadData) field(manager, "loadData");
        units.forEach(unit -> load.getBundleData().put(unit.name(), new BundleData(10, 1000)));
        int most = question.get("calls").asInt();
        double lasted = 0;
        for (int pass = 0; pass < 2; pass++) {
            long started = System.nanoTime();
            int calls = 0;
            while (calls < most && System.nanoTime() - started < 5_000_000_000L) {
                select.invoke(manager, units.get(calls++ % units.size()));
            }
            lasted = (System.nanoTime() - started) / 1e6 / calls;
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("ms_per_call", lasted);
        return answer;
    }

    /** A strategy alone, called several times with its memory carried on. */
    private static JsonNode selectorAnswers(JsonNode fleet) throws Exception {
        ServiceConfiguration settings = settings(fleet.get("conf"));
        ModularLoadManagerStrategy strategy = ModularLoadManagerStrategy.create(settings);
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode round : fleet.get("rounds")) {
            LoadData load = new LoadData();
            fill(load, round);
            // as the load manager's own set grows, and equal buckets in one known order
            Set<String> candidates = new HashSet<>();
            new TreeSet<>(load.getBrokerData().keySet()).forEach(candidates::add);
            Optional<String> chosen = strategy.selectBroker(candidates, new BundleData(10, 1000), load, settings);
            ObjectNode told = answers.addObject();
            told.put("chosen", chosen.orElse(""));
            Object best = fieldOrNull(strategy, "bestBrokers");
            if (best != null) {
                told.set("best", JSON.valueToTree(new TreeSet<>((Collection<?>) best)));
            }
        }
        return answer;
    }

    /** AvgShedder alone: one pick after the other, with its plans before the first and after each. */
    private static JsonNode memoryAnswers(JsonNode fleet) throws Exception {
        ServiceConfiguration settings = settings(fleet.get("conf"));
        ModularLoadManagerStrategy strategy = ModularLoadManagerStrategy.create(settings);
        Map<String, BundleData> bundles = new TreeMap<>();
        for (JsonNode name : fleet.get("bundles")) {
            BundleData data = new BundleData(10, 1000);
            data.setTopics(bundles.size() + 1); // plans are found by the values of a bundle's data
            bundles.put(name.asText(), data);
        }
        @SuppressWarnings("unchecked")
        Map<BundleData, String> plans = (Map<BundleData, String>) field(strategy, "bundleBrokerMap");
        fleet.get("planned").fields().forEachRemaining(
                plan -> plans.put(bundles.get(plan.getKey()), plan.getValue().asText()));
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode pick : fleet.get("picks")) {
            Set<String> candidates = new HashSet<>();
            pick.get("candidates").forEach(name -> candidates.add(name.asText()));
            Optional<String> chosen = strategy.selectBroker(
                    candidates, bundles.get(pick.get("bundle").asText()), new LoadData(), settings);
            ObjectNode told = answers.addObject();
            told.put("chosen", chosen.orElse(""));
            ObjectNode planned = told.putObject("planned");
            bundles.forEach((name, data) -> {
                if (plans.containsKey(data)) {
                    planned.put(name, plans.get(data));
                }
            });
        }
        return answer;
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

    /** Empty a strategy's running usage, so that every draw is a fresh leader's. */
    private static void forget(Object strategy) throws Exception {
        Object usage = fieldOrNull(strategy, "brokerAvgResourceUsageWithWeight");
        if (usage != null) {
            ((Map<?, ?>) usage).clear();
        }
    }

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    private static Object fieldOrNull(Object owner, String name) throws Exception {
        try {
            return field(owner, name);
        } catch (NoSuchFieldException missing) {
            return null;
        }
    }
}
