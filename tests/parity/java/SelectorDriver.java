import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.pulsar.broker.*;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.policies.data.loadbalancer.*;

/**
 * Runs LeastResourceUsageWithWeight of an older release alone, several times with its memory carried on.
 *
 * <p>Usage: SelectorDriver CASES. CASES holds one JSON object a line: {"conf", "rounds": [{"brokers": {name: {"report"}}}]};
 * one JSON line {"answers": [{"best": [...], "usage": {broker: ratio}}]} is printed for each: the brokers that it draws
 * from, and its running usage after the pick.
 */
public class SelectorDriver {
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
        ServiceConfiguration settings = settings(fleet.get("conf"));
        ModularLoadManagerStrategy strategy = (ModularLoadManagerStrategy) Class
                .forName("org.apache.pulsar.broker.loadbalance.impl.LeastResourceUsageWithWeight")
                .getDeclaredConstructor().newInstance();
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode answers = answer.putArray("answers");
        for (JsonNode round : fleet.get("rounds")) {
            LoadData load = new LoadData();
            Iterator<Map.Entry<String, JsonNode>> brokers = round.get("brokers").fields();
            while (brokers.hasNext()) {
                Map.Entry<String, JsonNode> broker = brokers.next();
                load.getBrokerData().put(broker.getKey(),
                        new BrokerData(JSON.treeToValue(broker.getValue().get("report"), LocalBrokerData.class)));
            }
            Set<String> candidates = new HashSet<>();
            new TreeSet<>(load.getBrokerData().keySet()).forEach(candidates::add);
            strategy.selectBroker(candidates, new BundleData(10, 1000), load, settings);
            ObjectNode told = answers.addObject();
            told.set("best", JSON.valueToTree(new TreeSet<>((Collection<?>) field(strategy, "bestBrokers"))));
            told.set("usage", JSON.valueToTree(new TreeMap<>((Map<?, ?>) field(strategy, "brokerAvgResourceUsageWithWeight"))));
        }
        return answer;
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

    private static Object field(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }
}
