import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.collect.Multimap;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.pulsar.broker.*;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.policies.data.loadbalancer.*; // up to 2.10 some of them are in the package above

/**
 * Runs Pulsar's own shedding classes on fleets that Trimtab's tests made, and tells what they pick.
 *
 * <p>Usage: SheddingDriver CASES. CASES holds one JSON object a line:
 * {"loads": [load, ...], "asks": [{"strategy", "conf", "recent", "rounds": [index of load, ...]}]};
 * one JSON line {"answers": [[round, ...], ...]} is printed for each, a round being
 * [[broker, [bundle, ...]], ...] in the order of the class's own answer (of AvgShedder with a third
 * list, the planned destinations). With "memory" in an ask of AvgShedder a round is
 * {"picked": that, or null where the class failed, "low": {broker: rounds}, "high": ...} instead. With "calls" in an ask the
 * milliseconds of each call are told instead, after as many calls to warm up.
 */
public class SheddingDriver {
    private static final String IMPL = "org.apache.pulsar.broker.loadbalance.impl.";
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints stays out of the answers
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(JSON.writeValueAsString(answers(JSON.readTree(line))));
            }
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static JsonNode answers(JsonNode fleet) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode ask : fleet.get("asks")) {
            LoadSheddingStrategy strategy = (LoadSheddingStrategy) Class.forName(IMPL + ask.get("strategy").asText())
                    .getDeclaredConstructor().newInstance();
            ServiceConfiguration settings = settings(ask.get("conf"));
            answers.add(ask.has("calls") ? timed(strategy, settings, fleet, ask) : rounds(strategy, settings, fleet, ask));
        }
        return answer;
    }

    private static ArrayNode rounds(LoadSheddingStrategy strategy, ServiceConfiguration settings, JsonNode fleet,
                                    JsonNode ask) throws Exception {
        ArrayNode told = JSON.createArrayNode();
        Set<String> active = Set.of();
        for (JsonNode index : ask.get("rounds")) {
            LoadData load = load(fleet.get("loads").get(index.asInt()), ask.get("recent"));
            Set<String> now = new HashSet<>(load.getBrokerData().keySet());
            if (!now.equals(active)) { // as the leader's load manager tells it
                tellActive(strategy, now);
                active = now;
            }
            if (ask.has("memory")) {
                told.add(withMemory(strategy, settings, load));
            } else {
                told.add(picked(strategy.findBundlesForUnloading(load, settings), load, planned(strategy)));
            }
        }
        return told;
    }

    private static ObjectNode withMemory(LoadSheddingStrategy strategy, ServiceConfiguration settings, LoadData load)
            throws Exception {
        ObjectNode round = JSON.createObjectNode();
        try {
            round.set("picked", picked(strategy.findBundlesForUnloading(load, settings), load, planned(strategy)));
        } catch (IllegalArgumentException failed) { // of the sort
            round.putNull("picked");
        }
        round.set("low", hits(strategy, "brokerHitCountForLow"));
        round.set("high", hits(strategy, "brokerHitCountForHigh"));
        return round;
    }

    private static ObjectNode hits(LoadSheddingStrategy strategy, String name) throws Exception {
        Field field = strategy.getClass().getDeclaredField(name);
        field.setAccessible(true);
        ObjectNode found = JSON.createObjectNode();
        ((Map<?, ?>) field.get(strategy)).forEach((broker, count) -> found.put(broker.toString(), ((Number) count).intValue()));
        return found;
    }

    /** From 2.11 on the classes forget brokers that left. */
    private static void tellActive(LoadSheddingStrategy strategy, Set<String> now) throws Exception {
        try {
            LoadSheddingStrategy.class.getMethod("onActiveBrokersChange", Set.class).invoke(strategy, now);
        } catch (NoSuchMethodException old) {
            // they remember them
        }
    }

    private static ArrayNode picked(Multimap<String, String> found, LoadData load, Map<?, ?> planned) {
        ArrayNode round = JSON.createArrayNode();
        found.asMap().forEach((broker, bundles) -> {
            ArrayNode entry = round.addArray().add(broker);
            ArrayNode names = entry.addArray();
            bundles.forEach(names::add);
            if (planned != null) {
                ArrayNode destinations = entry.addArray();
                bundles.forEach(name -> destinations.add(String.valueOf(planned.get(load.getBundleData().get(name)))));
            }
        });
        return round;
    }

    /** What AvgShedder planned, by the value of a bundle's averages; null for the other classes. */
    private static Map<?, ?> planned(LoadSheddingStrategy strategy) throws Exception {
        try {
            Field field = strategy.getClass().getDeclaredField("bundleBrokerMap");
            field.setAccessible(true);
            return (Map<?, ?>) field.get(strategy);
        } catch (NoSuchFieldException other) {
            return null;
        }
    }

    private static ArrayNode timed(LoadSheddingStrategy strategy, ServiceConfiguration settings, JsonNode fleet,
                                   JsonNode ask) throws Exception {
        LoadData load = load(fleet.get("loads").get(0), ask.get("recent"));
        int calls = ask.get("calls").asInt();
        ArrayNode told = JSON.createArrayNode();
        for (int call = 0; call < 2 * calls; call++) {
            long started = System.nanoTime();
            Multimap<String, String> found = strategy.findBundlesForUnloading(load, settings);
            double lasted = (System.nanoTime() - started) / 1e6;
            if (call >= calls) {
                told.addArray().add(lasted).add(found.size());
            }
        }
        return told;
    }

    private static ServiceConfiguration settings(JsonNode values) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("clusterName", "parity");
        properties.setProperty("metadataStoreUrl", "memory:local");
        Iterator<Map.Entry<String, JsonNode>> fields = values.fields();
        while (fields.hasNext()) {
            Map.Entry<String, JsonNode> field = fields.next();
            properties.setProperty(field.getKey(), field.getValue().asText());
        }
        return PulsarConfigurationLoader.create(properties, ServiceConfiguration.class);
    }

    /** The leader's memory, filled in the order of the file. */
    private static LoadData load(JsonNode told, JsonNode recent) throws Exception {
        LoadData load = new LoadData();
        Iterator<Map.Entry<String, JsonNode>> brokers = told.get("brokers").fields();
        while (brokers.hasNext()) {
            Map.Entry<String, JsonNode> broker = brokers.next();
            load.getBrokerData().put(broker.getKey(),
                    new BrokerData(JSON.treeToValue(broker.getValue(), LocalBrokerData.class)));
        }
        Iterator<Map.Entry<String, JsonNode>> bundles = told.get("bundles").fields();
        while (bundles.hasNext()) {
            Map.Entry<String, JsonNode> bundle = bundles.next();
            BundleData data = new BundleData(10, 1000);
            JsonNode rates = bundle.getValue();
            data.getShortTermData().setMsgRateIn(rates.get(0).asDouble());
            data.getShortTermData().setMsgRateOut(rates.get(1).asDouble());
            data.getShortTermData().setMsgThroughputIn(rates.get(2).asDouble());
            data.getShortTermData().setMsgThroughputOut(rates.get(3).asDouble());
            load.getBundleData().put(bundle.getKey(), data);
        }
        recent.forEach(name -> load.getRecentlyUnloadedBundles().put(name.asText(), System.currentTimeMillis()));
        return load;
    }
}
